# What a checkout needs: Python 3.11 or newer and make. Everything is installed into .venv.

PYTHONS = python3.11 python3.12 python3.13 python3.14 python3
RUNS = import sys; sys.version_info >= (3, 11) and print(sys.executable)
PYTHON ?= $(firstword $(foreach name,$(PYTHONS),$(shell $(name) -c '$(RUNS)' 2>/dev/null)))
BIN = .venv/bin
CODE = headgate alembic bench examples tests

.PHONY: setup test lint demo bench clean

setup: .venv/.ready

.venv/.ready: pyproject.toml
	@test -n "$$($(PYTHON) -c '$(RUNS)')" || { echo "Headgate needs Python 3.11 or newer: make setup PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

.venv/.bench: .venv/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@touch $@

test: setup lint
	$(BIN)/python -m pytest -n auto

lint: setup
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports

demo: setup
	$(BIN)/headgate demo

bench: .venv/.bench
	$(BIN)/python -m bench

clean:
	rm -rf .venv dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .schemathesis
	find $(CODE) -name __pycache__ -prune -exec rm -rf {} +
