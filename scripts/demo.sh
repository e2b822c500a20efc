#!/usr/bin/env bash
# The main job from nothing, in a few minutes on two cores: small data, a trained model, its evaluation and a page to open.
set -euo pipefail
lra=$1
data=${LRA_DATA:-data}
run=${LRA_RUNS:-runs}/demo
began=$SECONDS
echo "demo: making a small ListOps in $data" >&2
"$lra" data make listops --size tiny --data "$data"
echo "demo: training a Transformer on it (protocol 'tiny': for a first look, not for comparison)" >&2
train() { "$lra" train transformer listops --protocol tiny --data "$data" --run "$run" "$@"; }
if [ -f "$run/config.yaml" ]; then
  # Goes on with a demo that was stopped; a finished one is only shown again. One of another version is made anew.
  code=0; train --resume || code=$?
  if [ "$code" = 1 ]; then train --force; elif [ "$code" != 0 ]; then exit "$code"; fi
else
  train
fi
"$lra" eval "$run" --data "$data" --predictions
"$lra" report "$run" -o "$run/report.html"
echo "demo: done in $((SECONDS - began)) s. Open $run/report.html" >&2
