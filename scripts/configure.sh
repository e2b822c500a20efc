#!/usr/bin/env bash
# Configures build/PRESET unless that was done with the same settings before.
set -euo pipefail
preset=$1
cd "$(dirname "$0")/.."
settings="$preset $(cat .deps/torch .deps/cuda) $(ls -d .deps/cudnn-frontend/include 2>/dev/null || true) $(cksum < CMakePresets.json)"
stamp=build/$preset/.configured
if [ -f "build/$preset/build.ninja" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$settings" ]; then exit 0; fi
cuda=$(cat .deps/cuda)
[ "$preset" = cuda ] && cuda=ON  # asks for the plugin: an error where there is no nvcc
cmake --preset "$preset" -DLRA_TORCH_DIR="$(cat .deps/torch)" -DLRA_CUDA="$cuda"
echo "$settings" > "$stamp"
