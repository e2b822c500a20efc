#!/usr/bin/env bash
# Measures on this machine's GPU what docs/performance.md shows, a file of results for each part:
#
#   scripts/measure.sh LRA OUT PART...
#
# LRA is the program; from the source folder, because PyTorch's peers lie in bench/peers. PART is one of
#   tests     every GPU test (lra_tests beside the program)
#   engine    training steps, with and without dropout; types of numbers; determinism; the largest batch
#   lengths   training steps on the real lengths of DATA/text/default
#   kernels   each fused kernel beside a copy, and attention's
#   arena     the models of the arena at 1,024 to 16,384 positions
#   peers     them at 4,096 beside PyTorch (PYTHON, default python3; MODELS, default all)
#   engine-peers  the engine's steps beside PyTorch
#   text      the released Text configuration, whole (DATA/text/default)
#   curves    500 steps of ListOps in bf16 and in fp32, three seeds each (DATA/listops/default)
# DATA is $LRA_DATA, default data. The models' learning is scripts/learn.sh. Nothing else may use the GPU meanwhile.
set -euo pipefail
lra=$1 out=$2
shift 2
data=${LRA_DATA:-data} python=${PYTHON:-python3}
mkdir -p "$out"

bench() {
  local name=$1
  shift
  "$lra" bench "$@" -o "$out/$name.json" 2>&1 | tee "$out/$name.log"
}

tests() {
  "$(dirname "$lra")/lra_tests" --gtest_filter='*Gpu*:DeterministicTest.*' >"$out/tests.log" 2>&1 || true
  grep -E "FAILED|SKIPPED|PASSED|tests ran" "$out/tests.log"
}

engine() {
  bench engine --suite engine --seconds 8 --repeats 120
  bench engine-dtypes --suite engine --case text-1k --dtype bf16,tf32,fp32 --seconds 2
  bench engine-deterministic --suite engine --deterministic --seconds 2 \
    --case text-1k,text-4k-cls,text-1k-dropout,text-4k-cls-dropout
  bench profile-text-1k --suite engine --case text-1k --profile --seconds 1
  bench profile-text-4k-cls-dropout --suite engine --case text-4k-cls-dropout --profile --seconds 1
  bench max-batch --max-batch --lengths 4096
}

lengths() {
  for pooling in cls mean; do
    bench "text-real-$pooling" --train-on "$data/text/default/train.safetensors" --batches 32 --repeats 300 \
      --set model.pooling=$pooling --set model.dropout=0 --set model.attention_dropout=0
  done
  bench text-real-dropout --train-on "$data/text/default/train.safetensors" --batches 32 --repeats 300
}

kernels() {
  bench kernels --kernels --lengths 4096 --batches 32 --seconds 0.4
  bench kernels-large --kernels --lengths 4096 --batches 128 --seconds 0.4
}

arena() {
  for length in 1024 2048 4096 8192 16384; do
    bench "arena-$length" --models all --lengths $length --seconds 1 --repeats 50
  done
}

peers() {
  bench arena-peers --models "${MODELS:-all}" --lengths 4096 --seconds 2 --peers --peer-modes eager,compile-graphs \
    --python "$python"
}

engine-peers() {
  bench engine-peers --suite engine --case text-1k,text-4k,text-paper-4k,cifar-scratch --seconds 3 --peers \
    --peer-modes eager,compile,compile-graphs --python "$python"
}

text() {
  "$lra" train transformer text --protocol lra-code --data "$data" --run "$out/text" 2>&1 | tail -n 5
}

curves() {
  for dtype in bf16 fp32; do
    for seed in 0 1 2; do
      "$lra" train transformer listops --protocol lra-code --data "$data" --run "$out/curves/$dtype-$seed" \
        --dtype $dtype --seed $seed --set train.batch=8 --set train.steps=500 --set train.log_every=1 --quiet
    done
  done
}

for part in "$@"; do
  case $part in
    tests | engine | lengths | kernels | arena | peers | engine-peers | text | curves)
      echo "== $part" >&2
      began=$SECONDS
      $part
      echo "== $part: $((SECONDS - began)) s" >&2
      ;;
    *)
      echo "$part is no part; see the head of $0" >&2
      exit 1
      ;;
  esac
done
