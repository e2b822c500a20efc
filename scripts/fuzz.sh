#!/usr/bin/env bash
# scripts/fuzz.sh BUILD/fuzz SECONDS [NAME…]: runs the fuzz targets, all of them if none is named, for that long each.
# New inputs are kept in BUILD/fuzz/corpus/NAME, beside the seeds of tests/fuzz/corpus; what breaks a parser is left in
# BUILD/fuzz/finds/NAME-… and can be given to BUILD/fuzz/NAME again.
set -euo pipefail
seeds=$(cd "$(dirname "$0")/.." && pwd)/tests/fuzz
build=$(cd "$1" && pwd)
seconds=$2
shift 2
[ $# -gt 0 ] || set -- $(cd "$seeds" && ls *.cpp | sed 's/\.cpp$//')
mkdir -p "$build/finds"
for name in "$@"; do
  echo "fuzz: $name, $seconds s"
  mkdir -p "$build/corpus/$name"
  # Time-outs are wide: sanitizers are slow, and the machine may be busy.
  "$build/$name" -max_total_time="$seconds" -timeout=120 -rss_limit_mb=3000 -max_len=65536 -verbosity=0 \
    -print_final_stats=1 -artifact_prefix="$build/finds/$name-" "$build/corpus/$name" "$seeds/corpus/$name"
done
