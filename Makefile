# `make run` on a bare clone predicts a first scenario; `make help` lists the rest. PYTHON=... chooses the interpreter.
PYTHON ?= python3 python3.14 python3.13 python3.12 python3.11
SCENARIO ?= scenarios/quickstart.yaml
BIN := .venv/bin
BUNDLE_PYTHON ?= 3.11
BUNDLE_MACHINE ?= x86_64
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq install -c constraints.txt

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run app all bundle docs test test-wide test-long bench lint types rules golden clean

help: ## say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

run: .venv/.core ## install the core into .venv and predict scenarios/quickstart.yaml (SCENARIO=... another)
	@$(BIN)/dpsim run $(SCENARIO)

app: .venv/.app ## install the dashboard's extra into .venv and open the dashboard on localhost
	@$(BIN)/dpsim app

all: .venv/.all ## install every extra into .venv: dashboard, tuning, Dask, torch

bundle: .venv/.dev ## write a folder of wheels and their SBOM, for a node without network, to dist/bundle (BUNDLE_PYTHON, BUNDLE_MACHINE)
	@$(BIN)/python -m tools.bundle dist/bundle $(BUNDLE_PYTHON) $(BUNDLE_MACHINE)

test: lint ## lint, types, import arrows and the suite, in minutes
	@$(BIN)/python -m pytest -n 2

# Of random cases (hypothesis) there are more here too.
test-wide: .venv/.dev ## the cases of which `make test` has a selection with every pair of values
	@$(BIN)/python -m pytest -n 2 -m '(wide or hypothesis) and not long and not bench' --hypothesis-profile wide --durations=30 --durations-min=5

# Code 5 means that no test is marked long, which is no failure.
test-long: .venv/.dev ## what takes longer: fuzzing and full-size runs
	@$(BIN)/python -m pytest -m long || [ $$? -eq 5 ]

bench: .venv/.dev ## speed and memory, as a table, against their limits
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m bench tests/bench

# From an empty cache types take longer than all the rest.
lint: .venv/.dev ## ruff, mypy, import-linter, bandit and pip check alone
	@$(MAKE) --no-print-directory -j 2 types rules

types: .venv/.dev
	@$(BIN)/mypy

rules: .venv/.dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -m tools.doors
	@$(BIN)/python -m bandit -q -c pyproject.toml -r dpsim validate app tools
	@$(BIN)/python -m pip --disable-pip-version-check check -q

docs: .venv/.dev ## the documentation as a site, in docs/site
	@$(BIN)/python -m tools.site

golden: .venv/.dev ## write tests/golden, the JSON Schema and docs/combinations.md and quoted outputs anew; look at the difference before you commit it
	@$(BIN)/python tests/test_golden.py
	@$(BIN)/python tests/imports/test_summaries.py
	@PYTHONPATH=tests $(BIN)/python tests/engine/test_combinations.py
	@$(BIN)/dpsim schema > scenarios/scenario.schema.json
	@$(BIN)/python tests/docs/test_reference_pages.py
	@$(BIN)/python tests/docs/test_documents.py

clean: ## remove .venv and everything else that was made here
	@rm -rf .venv build dist docs/site .benchmarks .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The build backend comes from constraints.txt too, so it is installed first and the build is not isolated.
.venv/.core: $(BIN)/python pyproject.toml constraints.txt build_loops.py $(wildcard dpsim/network/*/*.[ch])
	@echo "installing dpsim into .venv ..." >&2
	@$(PIP) hatchling
	@$(PIP) --no-build-isolation -e .
	@touch $@

.venv/.dev: .venv/.core
	@echo "installing the development extras ..." >&2
	@$(PIP) --no-build-isolation -e '.[dev]'
	@touch $@

.venv/.app: .venv/.core
	@echo "installing the dashboard's extra ..." >&2
	@$(PIP) --no-build-isolation -e '.[app]'
	@touch $@

.venv/.all: .venv/.core
	@echo "installing every extra; torch takes minutes ..." >&2
	@$(PIP) --no-build-isolation -e '.[app,cluster,hf,plot,tune,validate]'
	@touch $@

$(BIN)/python:
	@for candidate in $(PYTHON); do \
		if "$$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			"$$candidate" -m venv --clear .venv && exit; rm -rf .venv; exit 1; \
		fi; \
	done; \
	echo "dpsim needs Python 3.11 or later with venv, and found none among: $(PYTHON)" >&2; \
	echo "Install one (Debian: apt-get install python3-venv), or name it: make run PYTHON=/path/to/python3" >&2; \
	exit 1
