#!/usr/bin/env bash
# The main job from nothing, in a few minutes on two cores: small data, a trained model, its evaluation and a page to open.
set -euo pipefail
lra=$1
data=${LRA_DATA:-data}
run=${LRA_RUNS:-runs}/demo
began=$SECONDS
echo "demo: making a small ListOps in $data" >&2
"$lra" data make listops --size tiny --data "$data" --quiet 2>/dev/null || "$lra" data make listops --size tiny --data "$data"
mode=--force
[ -f "$run/config.yaml" ] && [ ! -f "$run/result.json" ] && mode=--resume
echo "demo: training a Transformer on it (protocol 'tiny': for a first look, not for comparison)" >&2
"$lra" train transformer listops --protocol tiny --data "$data" --run "$run" "$mode" ||
  { [ "$mode" = --resume ] && "$lra" train transformer listops --protocol tiny --data "$data" --run "$run" --force; }
"$lra" eval "$run" --data "$data" --predictions >&2
"$lra" report "$run" -o "$run/report.html" >&2
echo "demo: done in $((SECONDS - began)) s. Open $run/report.html" >&2
