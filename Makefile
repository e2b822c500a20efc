# The commands a person types. Each target is idempotent and quick when there is nothing to do.
# Variables that win over detection: TORCH_DIR=…  PYTHON=…  CUDA=on|off|auto  JOBS=…
SHELL := /bin/bash
PYTHON ?= python3
CUDA ?= auto
JOBS ?= $(shell nproc)
PRESET ?= release
TORCH_DIR ?=
BUILD := build/$(PRESET)
SETUP := PYTHON='$(PYTHON)' CUDA='$(CUDA)' TORCH_DIR='$(TORCH_DIR)' scripts/setup.sh
LRA := build/lra

.DEFAULT_GOAL := help
.PHONY: help setup build demo test test-fast bench format format-check lint asan fuzz clean

help:
	@echo "make demo     from nothing to a trained model and its report (runs/demo/report.html)"
	@echo "make test     from nothing to all tests passed"
	@echo "make build    the program, at build/lra"
	@echo "make bench    our training step beside PyTorch's, on this machine"
	@echo "make setup | test-fast | format | lint | asan | fuzz | clean"

setup:
	@$(SETUP) build

build: setup
	@scripts/configure.sh $(PRESET)
	@cmake --build $(BUILD) -j $(JOBS) --target lra
	@ln -sfn $(PRESET)/lra build/lra

demo: build
	@scripts/demo.sh $(LRA)

test:
	@$(SETUP) test
	@scripts/configure.sh $(PRESET)
	@cmake --build $(BUILD) -j $(JOBS)
	@ln -sfn $(PRESET)/lra build/lra
	@ctest --test-dir $(BUILD) -j $(JOBS) --output-on-failure --no-tests=error --timeout 900 $(CTEST_ARGS)

test-fast: CTEST_ARGS := -L fast
test-fast: test

bench:
	@$(SETUP) bench
	@scripts/configure.sh $(PRESET)
	@cmake --build $(BUILD) -j $(JOBS) --target lra
	@ln -sfn $(PRESET)/lra build/lra
	@$(LRA) bench --suite foundation --peers --python "$$(cat .deps/python)" -o build/bench.json
	@$(LRA) bench --datasets -o build/bench-datasets.json

# The pages of docs/ that the program writes itself.
.PHONY: docs
docs: build
	@$(LRA) models --markdown > docs/models.md
	@$(LRA) train --keys --markdown > docs/configuration.md

format:
	@scripts/format.sh -i

format-check:
	@scripts/format.sh --dry-run -Werror

lint: build
	@scripts/lint.sh $(BUILD)

asan:
	@$(MAKE) test PRESET=asan

fuzz: SECONDS_EACH ?= 600
fuzz:
	@$(SETUP) test
	@scripts/configure.sh $(PRESET)
	@cmake --build $(BUILD) --target lra_fuzz
	@scripts/fuzz.sh $(BUILD)/fuzz $(SECONDS_EACH)

clean:
	rm -rf build
