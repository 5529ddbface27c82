# What a checkout needs: Python 3.11 or newer and make. Everything is installed into .venv.

PYTHONS = python3.11 python3.12 python3.13 python3.14 python3
RUNS = import sys; sys.version_info >= (3, 11) and print(sys.executable)
PYTHON ?= $(firstword $(foreach name,$(PYTHONS),$(shell $(name) -c '$(RUNS)' 2>/dev/null)))
BIN = .venv/bin

# uv takes a fifth of the time; pip is asked where only pip knows the way to the packages.
define install
	$(BIN)/python -m uv pip install --quiet --system-certs --python $(BIN)/python --editable '.[$(1)]' || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(1)]'
endef

# Hundreds of processes are started here: a module is compiled once, whatever the shell says.
export PYTHONDONTWRITEBYTECODE =

.PHONY: setup test test-console pictures fuzz stress chaos mutations lint demo bench openapi docs clean

setup: .venv/.ready

.venv/.ready: pyproject.toml
	@test -n "$$($(or $(PYTHON),false) -c '$(RUNS)' 2>/dev/null)" || \
		{ echo "Headgate needs Python 3.11 or newer: make setup PYTHON=/path/to/python" >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(call install,dev)
	@touch $@

.venv/.bench: .venv/.ready
	$(call install,bench)
	@touch $@

# Two workers more than cores, since the tests of processes and browsers mostly wait.
test: setup lint
	$(BIN)/python -m pytest -n $$(( 2 + $$($(BIN)/python -c 'import os; print(os.cpu_count())') )) \
		--dist worksteal

test-console: setup
	$(BIN)/python -m pytest -n auto tests/console

pictures: setup
	HEADGATE_PICTURES=docs/images $(BIN)/python -m pytest tests/console/test_pictures.py

fuzz: setup
	HEADGATE_CONTRACT_EXAMPLES=200 $(BIN)/python -m pytest -n auto --timeout 3600 \
		tests/contract/test_schemathesis.py
	HEADGATE_HISTORY_EXAMPLES=5000 HEADGATE_RULES_EXAMPLES=5000 $(BIN)/python -m pytest \
		--timeout 7200 tests/store/test_histories.py tests/store/test_gate_rules.py

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

stress: setup
	HEADGATE_STRESS_SECONDS=300 $(BIN)/python -m pytest tests/chaos/test_gate_under_stress.py

chaos: setup
	HEADGATE_CHAOS_SECONDS=600 $(BIN)/python -m pytest tests/chaos/test_everything_fails.py

mutations: setup
	$(BIN)/python -m tests.mutation

demo: setup
	$(BIN)/headgate demo

bench: .venv/.bench
	$(BIN)/python -m bench.peers
	$(BIN)/python -m bench.latency
	$(BIN)/python -m bench.gate
	$(BIN)/python -m bench.writes
	$(BIN)/python -m bench.reads
	$(BIN)/python -m bench.api
	$(BIN)/python -m bench.events
	$(BIN)/python -m bench.duties
	$(BIN)/python -m bench.console --minutes 10

openapi: setup
	$(BIN)/python openapi/generate.py

docs: setup
	$(BIN)/python docs/generate.py
	$(BIN)/python -m sphinx -q -W --keep-going -d dist/doctrees docs dist/docs

clean:
	rm -rf .venv dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .schemathesis
	find . -name __pycache__ -prune -exec rm -rf {} +
