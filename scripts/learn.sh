#!/usr/bin/env bash
# Trains the eleven models of the arena on ListOps and on Image as configured in the released code, and puts them
# beside the published numbers:
#
#   scripts/learn.sh LRA DATA OUT [JOBS]
#
# LRA is the program, DATA holds both data sets (`lra data make listops`, `lra data import image FOLDER`), OUT gets a
# run folder for each run, and report.html. JOBS runs share the GPU (default 3): right for accuracies, not for rates.
#
# LISTOPS_STEPS, IMAGE_STEPS: shorter schedules; default as released (5,000 and 35,000). MODELS, TASKS: fewer of them.
# Said again, it leaves finished runs alone and goes on with the others.
set -euo pipefail
lra=$1 data=$2 out=$3 jobs=${4:-3}
models=${MODELS:-transformer synthesizer sparse longformer reformer bigbird sinkhorn local linformer performer linear}
mkdir -p "$out"
export lra data out
export LISTOPS_STEPS=${LISTOPS_STEPS:-5000} IMAGE_STEPS=${IMAGE_STEPS:-35000}

train() {
  local task=$1 model=$2 steps
  case $task in
    listops) steps=$LISTOPS_STEPS ;;
    image) steps=$IMAGE_STEPS ;;
    *)
      echo "$task: TASKS may be listops and image" >&2
      return 1
      ;;
  esac
  local run=$out/$task-$model begin=--force
  [ -e "$run/result.json" ] && return
  [ -e "$run/checkpoints/last" ] && begin=--resume
  "$lra" train "$model" "$task" --protocol lra-code --data "$data" --run "$run" $begin \
    --set train.steps="$steps" --set train.log_every=25 >"$run.log" 2>&1 && return
  echo "$task $model failed: see $out/$task-$model.log" >&2
  return 1
}
export -f train

failed=0
for task in ${TASKS:-listops image}; do
  for model in $models; do echo "$task $model"; done
done | xargs -P "$jobs" -L 1 bash -c 'train $0 $1' || failed=1
runs=("$out"/*/result.json)
[ -e "${runs[0]}" ] && "$lra" report "${runs[@]%/result.json}" -o "$out/report.html"
exit "$failed"
