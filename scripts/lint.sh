#!/usr/bin/env bash
# clang-tidy and cppcheck over the sources of a configured build folder, or over the given files only.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
shift
# It does not see that fail() never returns, and would have register_module() called in initialisation lists.
cppcheck --quiet --enable=warning,performance,portability --inline-suppr --std=c++20 --library=googletest \
  --error-exitcode=1 -j "$(nproc)" --suppress=missingIncludeSystem --suppress=unknownMacro \
  --suppress=derefInvalidIteratorRedundantCheck --suppress=useInitializationList -I src "${@:-src}"
# clang takes g++'s precompiled headers for its own and stops: it is given the headers they were made of.
lint=$build/lint
mkdir -p "$lint"
cp "$build/compile_commands.json" "$lint/"
for header in "$build"/CMakeFiles/*.dir/cmake_pch.hxx; do
  target=$(basename "$(dirname "$header")" .dir)
  cp "$header" "$lint/$target.hxx"
  sed -i "s#-include [^ ]*/$target.dir/cmake_pch.hxx#-include $PWD/$lint/$target.hxx#g" "$lint/compile_commands.json"
done
sed -i 's# -Winvalid-pch##g; s# -Werror# -Wno-unknown-warning-option#g' "$lint/compile_commands.json"
if [ $# -gt 0 ]; then printf '%s\n' "$@"; else git ls-files 'src/*.cpp' ':!src/*_test.cpp' ':!src/*_cuda.cpp'; fi |
  xargs -P "$(nproc)" -n 4 clang-tidy -p "$lint" --quiet
