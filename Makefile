# Laminar on Dagster. `make` alone lists the targets.
#
# Needs make, Python >= 3.11 and Java >= 17. uv is taken from PATH, else put into .tools/.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
SYNCED := $(VENV)/.synced
ARGS ?=

# Images of containers often forbid bytecode: each process would compile all that it imports, three times the work.
unexport PYTHONDONTWRITEBYTECODE

# The first interpreter on PATH that is new enough and not newer than pyproject.toml allows.
FIND_PYTHON = for p in python3 python3.13 python3.12 python3.11 python; do \
	if "$$p" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' >/dev/null 2>&1; \
	then "$$p" -c 'import sys; print(sys.executable)'; break; fi; done
PYTHON ?= $(shell $(FIND_PYTHON))
UV = $(shell command -v uv 2>/dev/null || echo .tools/bin/uv)

.PHONY: help
help: ## Show this list
	@echo "Laminar on Dagster: SQL views over Delta tables, run as Dagster assets."
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "Start with: make demo.   More arguments: make test ARGS='-k watermark -x'"

.PHONY: setup
setup: java $(SYNCED) jars ## Set up everything: .venv, the Delta jars
	@echo "Ready. Next: make demo"

.PHONY: demo
demo: java $(SYNCED) jars ## Make demo events, run the views, show what they say
	@$(BIN)/python -m assets.demo $(ARGS)

# Each worker has a JVM of its own, of about 2 GiB. WORKERS=0: all in one process, for a debugger.
WORKERS ?= 2
IN_PARALLEL = -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: test
test: java $(SYNCED) jars ## Run the whole test suite
	@$(MAKE) browser || echo "Without a browser its tests are skipped; the last lines of the run say so." >&2
	@$(BIN)/pytest $(IN_PARALLEL) $(ARGS)

.PHONY: test-fast
test-fast: $(SYNCED) ## Run the tests that need no JVM and no other program
	@$(BIN)/pytest -m "not spark and not programs" $(IN_PARALLEL) $(ARGS)

# make laws BUDGET=20m ARGS='-k sessions'
BUDGET ?= 1h

.PHONY: laws
laws: java $(SYNCED) jars ## Search for counterexamples to the laws of the tests, for an hour (BUDGET=20m)
	@$(BIN)/python -m tests.laws.search --budget $(BUDGET) --workers $(WORKERS) $(ARGS)

# What the tests of the web interface see, for the README and the tutorial.
IMAGES := lineage partitions backfill check schedule

.PHONY: screenshots
screenshots: java $(SYNCED) jars browser ## Run the browser tests and put their pictures into docs/images
	@$(BIN)/pytest tests/browser $(ARGS)
	@mkdir -p docs/images
	@for name in $(IMAGES); do cp .laminar/screenshots/$$name.png docs/images/; done

.PHONY: check
check: $(SYNCED) ## Lint, formatting, types, import direction
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

.PHONY: format
format: $(SYNCED) ## Format the code and fix what can be fixed
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

.PHONY: dev
dev: java $(SYNCED) jars ## Start Dagster's web interface, its daemon and Spark; Ctrl-C stops all
	@$(BIN)/laminar dev $(ARGS)

# One of them: make bench BENCH=windows ARGS='--part streaming --json out.json'
BENCH ?= epoch_cost windows eowc changes

.PHONY: bench
bench: java $(SYNCED) jars ## Measure epochs, windows and closes, as ratios within one run
	@for name in $(BENCH); do echo "== $$name"; $(BIN)/python benchmarks/$$name.py $(ARGS) || exit 1; done

.PHONY: soak
soak: java $(SYNCED) jars ## Run 3,000 small epochs: time, files and memory must not grow
	@$(BIN)/python benchmarks/soak.py $(ARGS)

.PHONY: clean
clean: ## Remove the environment, caches and local state of this directory
	rm -rf $(VENV) .tools .laminar .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The steps behind `setup`. -S: the check must work before anything is installed.
.PHONY: python java jars
python:
	@test -n "$(PYTHON)" || { \
	  echo "Python 3.11, 3.12 or 3.13 is needed, and none of them is on PATH." >&2; \
	  echo "  Debian, Ubuntu:  sudo apt install python3 python3-venv" >&2; \
	  echo "  macOS:           brew install python@3.12" >&2; \
	  echo "  elsewhere:       make PYTHON=/path/to/python3.12 setup" >&2; \
	  exit 1; }

java: python
	@"$(PYTHON)" -S -m laminar_dagster.engine.java

jars: $(SYNCED)
	@$(BIN)/python -m laminar_dagster.engine.jars

# The browser tests drive the system's own Chromium.
.PHONY: browser
browser:
	@for name in chromium chromium-browser google-chrome-stable google-chrome; do \
	  command -v $$name >/dev/null 2>&1 && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	  echo "Chromium is not on PATH: installing it with apt-get" >&2; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >&2; \
	else \
	  echo "The tests of the web interface need Chromium or Chrome, and neither is on PATH." >&2; \
	  echo "  Debian, Ubuntu:  sudo apt install chromium" >&2; \
	  echo "  macOS:           brew install --cask chromium" >&2; \
	  echo "  without either:  make test-fast" >&2; \
	  exit 1; \
	fi

.tools/bin/uv: | python
	@echo "uv is not on PATH: putting it into .tools/" >&2
	@"$(PYTHON)" -m venv .tools
	@.tools/bin/python -m pip install --quiet --disable-pip-version-check uv

$(SYNCED): pyproject.toml uv.lock | python $(filter .tools/bin/uv,$(UV))
	@echo "Setting up $(VENV) (the first time takes about a minute)" >&2
	@UV_PROJECT_ENVIRONMENT=$(VENV) $(UV) sync --frozen --quiet --python "$(PYTHON)"
	@touch $@
