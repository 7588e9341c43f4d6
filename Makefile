# Everything on a machine that has Python 3.11-3.13 and make. `make help` lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
IN_RANGE := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do $$p -c '$(IN_RANGE)' 2>/dev/null && echo $$p && break; done)
CORES ?= 2
STUDY ?= embedded,embedded_code,theory
SEEDS ?=
SET ?=
TORCH_INDEX ?=
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z%-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'
	@echo "  settings: STUDY=embedded,theory  SEEDS=3 (replicates 0..2)  CORES=2  SET='train.steps=50 tracking=disabled'"
	@echo "            PYTHON=python3.12  TORCH_INDEX=URL (where to take torch from, such as an index of CPU wheels)"

.PHONY: setup
setup: $(READY) ## create .venv with everything pinned

$(READY): pyproject.toml constraints/constraints.txt
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11, 3.12 or 3.13 found; install one, or name it: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@$(PYTHON) -c '$(IN_RANGE)' || { echo "error: PYTHON=$(PYTHON) is $$($(PYTHON) --version 2>&1); expected Python 3.11 to 3.13" >&2; exit 1; }
	@if ! $(BIN)/python -m pip --version >/dev/null 2>&1 || ! $(BIN)/python -c '$(IN_RANGE)'; then \
	    echo "setup: creating $(VENV) with $$($(PYTHON) --version)"; \
	    $(PYTHON) -m venv --clear $(VENV) || { echo "error: $(PYTHON) cannot make virtual environments; on Debian: apt-get install python3-venv" >&2; exit 1; }; \
	fi
	@echo "setup: installing torch (about 200 MB as a CPU wheel, several GB as a CUDA wheel)"
	@$(BIN)/python -m pip install -q $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) -c constraints/constraints.txt torch
	@echo "setup: installing kappo and the pinned versions of constraints/constraints.txt (about two minutes)"
	@$(BIN)/python -m pip install -q -c constraints/constraints.txt -e '.[train,dev]'
	@touch $(READY)
	@echo "setup: done"

.PHONY: demo
demo: $(READY) ## run the embedded studies end to end (about 10 minutes) and print their verdict
	@$(BIN)/python workflow/run.py --study '$(STUDY)' --cores $(CORES) $(if $(SEEDS),--replicates $(SEEDS)) --set "$(SET)"

.PHONY: test
test: lint test-fast test-slow ## lint, then all tests

.PHONY: test-fast
test-fast: $(READY) ## tests that take seconds
	$(BIN)/python -m pytest -q -m "not slow"

.PHONY: test-slow
test-slow: $(READY) ## stages and workflow for real: smoke study, kills, resumes
	$(BIN)/python -m pytest -q -m slow

.PHONY: lint
lint: $(READY) ## ruff, snakefmt, mypy, the import contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: format
format: $(READY) ## rewrite the code in the house's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt Snakefile workflow

bench-%: $(READY) ## run benchmarks/%.py: ratios against a named peer, results/benchmarks/%.json
	@test -f benchmarks/$*.py || { echo "error: no benchmarks/$*.py; there are: $(patsubst benchmarks/%.py,%,$(filter-out benchmarks/_%,$(wildcard benchmarks/*.py)))" >&2; exit 2; }
	@$(BIN)/python benchmarks/$*.py
