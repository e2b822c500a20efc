#!/usr/bin/env bash
# Prepares a machine: system packages, then LibTorch. Called by the Makefile as `setup.sh build|test|bench`.
#
# LibTorch is looked for in this order: $TORCH_DIR, a torch of the pinned version that $PYTHON already has, .venv.
# If none is there, .venv is made: with a CUDA toolkit on the machine the whole torch wheel with its CUDA libraries
# goes in, without one only what libtorch_cpu.so needs (no CUDA download).
#
# Results, read by configure.sh:  .deps/torch (folder of the torch package), .deps/cuda (ON or OFF).
set -euo pipefail
cd "$(dirname "$0")/.."
purpose=${1:-build}
torch_version=2.11.0
cudnn_frontend_version=1.18.0
cuda_runtime='nvidia-cuda-runtime==13.0.* nvidia-cuda-cupti==13.0.*'
python=${PYTHON:-python3}
mkdir -p .deps

say() { echo "setup: $*" >&2; }

# --- system packages -------------------------------------------------------------------------------------------
required="g++ cmake ninja-build git ca-certificates python3-venv libcli11-dev libspdlog-dev libfmt-dev nlohmann-json3-dev
          libyaml-cpp-dev libssl-dev libarchive-dev libpng-dev zlib1g-dev liblzma-dev libzstd-dev libbz2-dev
          libcurl4-openssl-dev"
wanted="ccache mold"
[ "$purpose" = test ] && { required="$required libgtest-dev"; wanted="$wanted chromium clang libclang-rt-14-dev"; }
[ "$purpose" = bench ] && wanted="$wanted python3-dev"

missing_of() {
  local p; for p in "$@"; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || echo "$p"
  done
}

install_packages() { # install_packages fatal|optional PACKAGE…
  local how=$1; shift
  local missing; missing=$(missing_of "$@" | tr '\n' ' ')
  [ -n "${missing// }" ] || return 0
  local as=""
  if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then as=sudo; else
      say "these packages are missing: $missing"
      say "run this once, then try again:  sudo apt-get install -y --no-install-recommends $missing"
      [ "$how" = optional ] && return 0
      exit 1
    fi
  fi
  say "installing: $missing"
  local log=.deps/apt.log
  timeout 180 $as apt-get update -qq >"$log" 2>&1 || true
  if ! timeout 900 $as env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >>"$log" 2>&1; then
    if [ "$how" = optional ]; then say "not available here: $missing (going on without)"; return 0; fi
    say "could not install $missing (see $log); going on, the build will say what it lacks"
  fi
}

if command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then
  # One attempt an hour where packages cannot be had, so that an offline machine is not slowed down by every command.
  note=.deps/packages-$purpose
  if [ -n "$(missing_of $required $wanted)" ] && { [ ! -f "$note" ] || [ -n "$(find "$note" -mmin +60)" ]; }; then
    install_packages fatal $required
    for p in $wanted; do install_packages optional "$p"; done
    touch "$note"
  fi
fi

# --- CUDA toolkit ----------------------------------------------------------------------------------------------
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
case "${CUDA:-auto}" in
  off) cuda=OFF ;;
  on) cuda=ON; [ -n "$nvcc" ] || { say "CUDA=on, but there is no nvcc on PATH or in /usr/local/cuda/bin"; exit 1; } ;;
  auto) if [ -n "$nvcc" ]; then cuda=ON; else cuda=OFF; fi ;;
  *) say "CUDA is '${CUDA}', expected on, off or auto"; exit 1 ;;
esac

# --- LibTorch --------------------------------------------------------------------------------------------------
version_of() { sed -n "s/^__version__ = '\([0-9.]*\).*/\1/p" "$1/version.py" 2>/dev/null; }
package_in() { "$1" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])' 2>/dev/null; }
complete() { # complete DIR: the pinned LibTorch with the libraries this build needs
  [ "$(version_of "$1")" = "$torch_version" ] && [ -f "$1/lib/libtorch_cpu.so" ] || return 1
  if [ "$cuda" = OFF ] && [ "$purpose" != bench ]; then return 0; fi
  local cublas
  for cublas in "$1"/../nvidia/cu13/lib/libcublas.so.* "$1"/lib/libcublas.so.*; do [ -e "$cublas" ] && return 0; done
  return 1
}

pip_install() { .venv/bin/python -m pip install -q --disable-pip-version-check --no-input "$@" >&2; }
make_venv() {
  [ -x .venv/bin/python ] || "$python" -m venv .venv || {
    say "could not make .venv with $python: install python3-venv, or name another interpreter with PYTHON=…"; exit 1; }
}

torch=""
if [ -n "${TORCH_DIR:-}" ]; then
  [ -f "$TORCH_DIR/lib/libtorch_cpu.so" ] || { say "TORCH_DIR=$TORCH_DIR holds no lib/libtorch_cpu.so"; exit 1; }
  torch=$TORCH_DIR
else
  for candidate in "$("$python" -c 'import torch, os; print(os.path.dirname(torch.__file__))' 2>/dev/null || true)" \
                   "$( [ -x .venv/bin/python ] && package_in .venv/bin/python )/torch"; do
    if [ -n "$candidate" ] && complete "$candidate"; then torch=$candidate; break; fi
  done
fi
if [ -z "$torch" ]; then
  make_venv
  if [ "$cuda" = ON ] || [ "$purpose" = bench ]; then
    say "installing torch $torch_version with its CUDA libraries into .venv (about 4.7 GB on disk, a minute or two)"
    pip_install "torch==$torch_version" numpy
  else
    say "installing torch $torch_version into .venv, CPU libraries only (a minute)"
    pip_install --no-deps "torch==$torch_version" $cuda_runtime
  fi
  torch=$(package_in .venv/bin/python)/torch
  complete "$torch" || { say "the torch in $torch is not complete after its installation"; exit 1; }
fi

# cuDNN's C++ interface: headers only, for attention on a GPU. One attempt an hour where it cannot be had.
headers=.deps/cudnn-frontend/include
if [ "$cuda" = ON ] && [ ! -f "$headers/cudnn_frontend.h" ] &&
   { [ ! -f .deps/no-cudnn-frontend ] || [ -n "$(find .deps/no-cudnn-frontend -mmin +60)" ]; }; then
  say "fetching the headers of cuDNN's frontend $cudnn_frontend_version"
  rm -rf .deps/cudnn-frontend && mkdir -p .deps/cudnn-frontend
  if "$python" -m pip download -q --disable-pip-version-check --no-input --no-deps -d .deps/cudnn-frontend \
       "nvidia-cudnn-frontend==$cudnn_frontend_version" >&2 &&
     (cd .deps/cudnn-frontend && "$python" -c '
import glob, zipfile
with zipfile.ZipFile(glob.glob("*.whl")[0]) as wheel:
    wheel.extractall(members=[n for n in wheel.namelist() if n.startswith("include/")])'); then
    rm -f .deps/cudnn-frontend/*.whl .deps/no-cudnn-frontend
  else
    touch .deps/no-cudnn-frontend
    say "not available here: going on without cuDNN's attention; flash serves instead, which is slower on full rows"
  fi
fi

# Python's safetensors reads our checkpoints in one of the tests.
if [ "$purpose" = test ] && ! "$python" -c 'import safetensors, numpy' 2>/dev/null; then
  make_venv
  .venv/bin/python -c 'import safetensors, numpy' 2>/dev/null || pip_install safetensors numpy ||
    say "Python's safetensors is not available here; its test will say that it was skipped"
fi

put() { [ "$(cat "$1" 2>/dev/null)" = "$2" ] || echo "$2" > "$1"; }
put .deps/torch "$torch"
# The interpreter that goes with this torch, for the peers of `make bench`.
case "$torch" in "$PWD"/.venv/*|.venv/*) put .deps/python .venv/bin/python ;; *) put .deps/python "$python" ;; esac
put .deps/cuda "$cuda"
