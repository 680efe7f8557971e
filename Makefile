# Every verb works in a fresh clone: what it needs is made first, and only when it is missing or out of date.
# PYTHON=... chooses the Python of .venv (otherwise the first on PATH that fits), ARGS="..." is passed on.

BIN := .venv/bin
# Engines whose libraries cannot be installed together with Tritone's have an environment of their own.
ENGINE_ENV := $(if $(filter vllm transformers,$(ENGINE)),.venv-vllm)
MAKEFLAGS += --no-print-directory

.DEFAULT_GOAL := help
.PHONY: help serve doctor test test-unit test-service test-engines test-recipes lint format bench clean venv venv-dev venv-vllm

help: ## List these verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s%s\n", $$1, $$2}' $(MAKEFILE_LIST)

serve: venv $(if $(ENGINE_ENV),venv-vllm) ## Start the server with the bundled model, or MODEL=path; ENGINE=name and ARGS="--options" are passed on
	@exec $(BIN)/tritone serve $(if $(MODEL),"$(MODEL)") $(if $(ENGINE),--engine "$(ENGINE)") \
		$(if $(ENGINE_ENV),--engine-env $(ENGINE_ENV)) $(ARGS)

doctor: venv ## Say what was found on this machine and what to do about it
	@$(BIN)/tritone doctor $(ARGS)

test: venv-dev ## Run the unit and the service tests
	$(BIN)/pytest $(ARGS)

test-unit: venv-dev ## Run the unit tests only: under a minute, no sockets
	$(BIN)/pytest tests/unit $(ARGS)

test-service: venv-dev ## Run the service tests only: a real Triton with the scripted engine and the bundled model
	$(BIN)/pytest tests/service $(ARGS)

test-engines: venv-vllm ## Run the tests of the vllm and transformers adapters, in .venv-vllm
	.venv-vllm/bin/python -m pytest -W default tests/engines $(ARGS)

test-recipes: venv-dev ## Install other load tools, and test what docs/recipes.md says of them (3 GB to download)
	$(BIN)/pytest tests/recipes $(ARGS)

lint: venv-dev ## Check style, format and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/mypy -p scripts

format: venv-dev ## Put the code into the one format, and fix what can be fixed
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: venv-dev ## Measure the pipeline with the scripted engine; ARGS="--streams 64" and so on
	$(BIN)/python -m perf pipeline $(ARGS)

clean: ## Remove .venv and what tools left behind (not the download cache, not results/)
	rm -rf .venv .venv-vllm dist .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

venv:
	@scripts/venv.sh serve

venv-dev:
	@scripts/venv.sh dev

venv-vllm: ## Make .venv-vllm, with vLLM and transformers for a CPU (1 GB to download)
	@scripts/venv.sh vllm
