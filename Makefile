# make demo: the pipeline on a simulated market; make test: the tests. Both install what they need into .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
LOCK := --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --no-emit-index-url -q
DEMO_DIR ?= .cache/demo

.PHONY: install install-dev demo test test-slow faults kafka kafka-down lint bench lock schemas clean

install: $(VENV)/.runtime
install-dev: $(VENV)/.dev

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "error: Python 3.11 or newer is needed, $(PYTHON) is older (hint: make PYTHON=python3.12 $(MAKECMDGOALS))" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: requirements/runtime.txt pyproject.toml | $(VENV)/bin/python
	@echo "installing what the pipeline needs into $(VENV) …" >&2
	@$(PIP) install --require-hashes -r requirements/runtime.txt
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.runtime
	@echo "installing what the tests need into $(VENV) …" >&2
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@touch $@

demo: install
	@rm -rf $(DEMO_DIR)
	@DEFI_BRAIN_DATA_DIR=$(DEMO_DIR) $(BIN)/defi-brain demo

test: install-dev
	@$(BIN)/python -m pytest -m "not slow" -n auto --dist loadfile

test-slow: install-dev
	@$(BIN)/python -m pytest -m slow

faults: install-dev
	@$(BIN)/python -m pytest -m faults

kafka: install-dev
	@$(BIN)/python -m deploy.kafka up

kafka-down: install-dev
	@$(BIN)/python -m deploy.kafka down

lint: install-dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m schemas.export --check
	@$(BIN)/python -m schemas.asyncapi --check

bench: install-dev
	@$(BIN)/python -m bench

lock: $(VENV)/bin/python
	@$(BIN)/uv pip compile pyproject.toml --group build $(LOCK) -o requirements/runtime.txt
	@$(BIN)/uv pip compile pyproject.toml --group dev --all-extras $(LOCK) -c requirements/runtime.txt -o requirements/dev.txt
	@$(BIN)/uv pip compile pyproject.toml --group build --extra kafka $(LOCK) -c requirements/runtime.txt -o requirements/kafka.txt

schemas: install
	@$(BIN)/python -m schemas.export
	@$(BIN)/python -m schemas.asyncapi

clean:
	@rm -rf $(VENV) .cache build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
