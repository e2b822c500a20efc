#!/usr/bin/env bash
# The main job from nothing, in a few minutes on two cores: small data of three tasks, a trained model for each, their
# evaluation and a page to open.
set -euo pipefail
lra=$1
data=${LRA_DATA:-data}
demo=${LRA_RUNS:-runs}/demo
began=$SECONDS
runs=()
for task in listops pathfinder image; do
  run=$demo/$task
  echo "demo: making a small set of $task in $data" >&2
  make_data() { "$lra" data make "$task" --size tiny --data "$data" "$@"; }
  # Data of another version of the program is made anew.
  code=0; make_data || code=$?
  if [ "$code" = 1 ]; then make_data --force; elif [ "$code" != 0 ]; then exit "$code"; fi
  echo "demo: training a Transformer on it (protocol 'tiny': for a first look, not for comparison)" >&2
  train() { "$lra" train transformer "$task" --protocol tiny --data "$data" --run "$run" "$@"; }
  if [ -f "$run/config.yaml" ]; then
    # Goes on with a demo that was stopped; a finished one is only shown again. One of another version is made anew.
    code=0; train --resume || code=$?
    if [ "$code" = 1 ]; then train --force; elif [ "$code" != 0 ]; then exit "$code"; fi
  else
    train
  fi
  "$lra" eval "$run" --data "$data" --predictions
  runs+=("$run")
done
"$lra" report "${runs[@]}" -o "$demo/report.html"
echo "demo: done in $((SECONDS - began)) s. Open $demo/report.html" >&2
