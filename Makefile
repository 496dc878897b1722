# Each command makes its own virtual environment in .venv, from this folder's files alone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo demo-live test check docs test-flower soak bench quality bench-exchange bench-dashboard bench-flower clean
# Of make soak.
SECONDS ?= 600
AGENTS ?= 200

help: ## List these commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

demo: $(VENV)/demo.done ## Tell a day of five simulated pumps, with a real server and agents, and draw it
	$(BIN)/elmgrove demo

demo-live: $(VENV)/demo.done ## The same, and go on until Ctrl-C, with the dashboard open
	$(BIN)/elmgrove demo --live

# Tests start many processes: each reads what the first one compiled, also where a shell is told to keep nothing.
test: export PYTHONDONTWRITEBYTECODE =
test: $(VENV)/dev.done ## Run all tests, one process for each core
	$(BIN)/python -m pytest -n auto --dist worksteal

# The modules on Flower can't be imported without it; .ci/flower has it.
check: $(VENV)/dev.done ## Run ruff, mypy --strict, import-linter and the doctests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest --doctest-modules src/elmgrove papers/src --ignore src/elmgrove/rounds/flower.py

docs: $(VENV)/docs.done ## Build a site of the docs in site/, with every link and anchor checked
	$(BIN)/python -m docs.make

test-flower: ## Run Flower's tests and its example, in an environment of its own (.venv-flower)
	.ci/flower

soak: $(VENV)/dev.done ## Run hundreds of agents and a server, kill them, fill disks, and count what was lost (10 minutes; SECONDS=60 AGENTS=50)
	$(BIN)/python -m benchmarks.soak --seconds $(SECONDS) --agents $(AGENTS)

bench: $(VENV)/bench.done ## Measure speed against the literal equations, pyoselm, PyTorch and River
	$(BIN)/python -m benchmarks

# ELMGROVE_DATA names the folder with the data sets; those that are not there are left out.
quality: $(VENV)/bench.done ## Measure how well rows are told apart, against PyOD and River; writes docs/quality.md (half an hour)
	$(BIN)/python -m benchmarks.quality

# .ci/postgres make bench-exchange measures PostgreSQL as well.
bench-exchange: $(VENV)/dev.done ## Measure the exchange server, its sums and the agent (half an hour, 10 GB of disk)
	$(BIN)/python -m benchmarks.exchange load
	$(BIN)/python -m benchmarks.exchange growth
	$(BIN)/python -m benchmarks.exchange sums
	$(BIN)/python -m benchmarks.exchange patterns
	$(BIN)/python -m benchmarks.exchange agent

# .ci/postgres .ci/chromium make bench-dashboard measures PostgreSQL as well, and installs Chromium.
bench-dashboard: $(VENV)/dev.done ## Measure the dashboard: pages of 10,000 devices, and 1,000 live agents (20 minutes, needs Chromium)
	$(BIN)/python -m benchmarks.dashboard pages
	$(BIN)/python -m benchmarks.dashboard live

bench-flower: ## Measure rounds on Flower's simulation against this process, 10 to 1,000 clients (15 minutes)
	.ci/flower python -m benchmarks.flower

clean: ## Remove the virtual environments and the site
	rm -rf $(VENV) .venv-flower site build/docs

$(BIN)/python:
	@echo "Setting up $(VENV) (once)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Elmgrove needs Python 3.11 or newer; name one with: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)

# The tests and the checks are the appendix's as well, and it reads the data sets of make quality.
$(VENV)/dev.done $(VENV)/bench.done: APPENDIX := --editable ./papers

$(VENV)/%.done: pyproject.toml papers/pyproject.toml | $(BIN)/python
	@echo "Installing what 'make $*' needs (once, a minute or two)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]' $(APPENDIX)
	@touch $@
