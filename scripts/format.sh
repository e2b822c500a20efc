#!/usr/bin/env bash
# clang-format over every source file; arguments go to clang-format.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files -co --exclude-standard '*.cpp' '*.h' '*.cu' '*.cuh' | xargs clang-format "$@"
