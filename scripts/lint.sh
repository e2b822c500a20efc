#!/usr/bin/env bash
# clang-tidy and cppcheck over the sources of a configured build folder.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
cppcheck --quiet --enable=warning,performance,portability --inline-suppr --std=c++20 --error-exitcode=1 \
  --suppress=missingIncludeSystem --suppress=unknownMacro -I src src
git ls-files 'src/*.cpp' | xargs -P "$(nproc)" -n 4 clang-tidy -p "$build" --quiet
