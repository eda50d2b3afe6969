# Everything runs in a virtual environment of this folder, made when first needed.
PYTHON ?= python3
VENV ?= .venv
ARGS ?=
# So many processes run tests, each with servers of its own: nearly all they do is wait. Servers that
# were given are shared, so that one process has them for itself.
JOBS ?= $(if $(DBBEAT_TEST_REDIS_URL)$(DBBEAT_TEST_RABBITMQ_URL),0,2)

BIN := $(VENV)/bin
# The extras of pyproject.toml are installed one by one; a file in the environment marks each.
WITH := $(VENV)/.with

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install servers check format test faults demo bench clean

help: ## List what can be made
	@echo 'make TARGET [PYTHON=python3.12] [ARGS="more arguments for the command"]'
	@echo
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(WITH)-test $(WITH)-check servers ## Install all that tests and checks need, servers too

check: $(WITH)-test $(WITH)-check ## Lint, formatting, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(WITH)-check ## Format the code and mend what the linter can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: $(WITH)-test servers ## Run the tests against real servers, each started for the run
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(ARGS)

faults: $(WITH)-test servers ## Run the fault suite for longer
	$(BIN)/python -m pytest tests/faults tests/model tests/worker/test_recovery.py --long $(ARGS)

demo: $(WITH)-demo ## See it run: beats and a worker, the leader and the worker killed
	$(BIN)/python -m example_project.demo $(ARGS)

bench: $(WITH)-test $(WITH)-bench servers ## Measure this project and its peers
	$(BIN)/python -m benchmarks $(ARGS)

clean: ## Remove the virtual environment and what the tools left
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

servers:
	@scripts/install-servers

$(WITH)-%: pyproject.toml | $(BIN)/pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

$(BIN)/pip:
	scripts/make-venv $(PYTHON) $(VENV)
