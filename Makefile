.PHONY: help setup test lint types layers format demo ci

help:  ## Show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

setup:  ## Make a virtual environment with everything for development
	python3 -m venv .venv && .venv/bin/pip install -e '.[dev]'

test:  ## Run the tests
	.venv/bin/pytest

lint:  ## Check style
	.venv/bin/ruff check . && .venv/bin/ruff format --check .

types:  ## Check types
	.venv/bin/mypy

layers:  ## Check that imports go downwards only
	.venv/bin/lint-imports

format:  ## Format the code
	.venv/bin/ruff check --fix . && .venv/bin/ruff format .

demo:  ## Show what it does, without a key
	.venv/bin/unsay demo

ci:  ## Run everything that the gate runs
	bash .ci/run
