.DEFAULT_GOAL := help
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --constraint constraints.txt

export HF_HUB_DISABLE_TELEMETRY := 1
export RAGAS_DO_NOT_TRACK := true

.PHONY: help
help: ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; this is %s. Name another: make PYTHON=python3.12 ..." % sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing into $(VENV) (a few minutes the first time)"
	$(INSTALL) --editable '.[ragas,models]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing into $(VENV), with what the tests need (a few minutes the first time)"
	$(INSTALL) --editable '.[ragas,models,dev]'
	@touch $@ $(VENV)/.demo

.PHONY: demo
demo: $(VENV)/.demo ## Run the ablation on the bundled theses; prints where the report is
	$(BIN)/scholar-rag-li demo

.PHONY: models
models: $(VENV)/.demo ## Build the models that need no model hub, once, into the user's cache
	$(BIN)/python -c 'from scholar_rag_li.demo import offline_models; offline_models(log=print)'

.PHONY: test
test: lint types models ## Run lint, types and all tests but the exhaustive ones
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -m 'not slow'

.PHONY: test-fast
test-fast: $(VENV)/.dev ## Run the tests that need neither model nor database
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -m 'not slow and not integration and not model and not reference'

.PHONY: test-slow
test-slow: $(VENV)/.dev models ## Run the exhaustive tests
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -m slow

.PHONY: lint
lint: $(VENV)/.dev ## Check style, layers and spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/codespell src tests examples/*.py README.md CHANGELOG.md

.PHONY: types
types: $(VENV)/.dev ## Check types
	$(BIN)/mypy
