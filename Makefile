# `make help` lists the verbs. Each makes its own .venv from a bare python3 >= 3.10 with pip, using uv inside it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS := --extra dev
# uv trusts what the system trusts, as pip and git do: behind a proxy its own list of authorities is not enough.
export UV_SYSTEM_CERTS ?= 1
SYNC := $(BIN)/uv sync --quiet --frozen --inexact
.DEFAULT_GOAL := help
.PHONY: help install demo test check bench bench-quality notebooks docs clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

install: $(VENV)/.umi ## the umi command with its readers of files, into .venv

demo: $(VENV)/.demo ## index the Python standard library's docstrings and ask; make demo Q="..." asks your own
	@$(BIN)/umi demo $(if $(Q),--question "$(Q)")

# Hundreds of tests start a Python: without its bytecode each compiles its imports anew, up to three seconds.
# One worker a core, at most four, because a worker takes up to 2 GB; the tests of a file share its servers and stores.
test: $(VENV)/.dev ## every test (about a quarter of an hour); make test T=tests/ranking for some
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile $(T)

check: $(VENV)/.dev ## lint, format, types, import direction, public names
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest tests/test_architecture.py

bench: $(VENV)/.bench ## speed, side by side with the peers
	@$(BIN)/python -m benchmarks

bench-quality: $(VENV)/.bench ## ranking quality, side by side with the peers, on the sets in ../shared/data
	@$(BIN)/python benchmarks/quality.py

notebooks: $(VENV)/.dev ## execute every notebook in a real kernel
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest tests/test_notebooks.py

docs: $(VENV)/.dev ## build the documentation site: site/index.html opens from the disk
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

clean: ## remove the environment, caches and the demo's store
	rm -rf $(VENV) .umi-demo .pytest_cache .mypy_cache .ruff_cache .hypothesis benchmarks/out site

$(VENV)/.uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "umi needs Python 3.10 or newer; set PYTHON=python3.x")'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@touch $@

$(VENV)/.umi: $(VENV)/.uv pyproject.toml uv.lock
	@echo "umi: installing into $(VENV) (once)"
	@test -e $(VENV)/.dev || $(SYNC) --extra files
	@touch $@

$(VENV)/.demo: $(VENV)/.uv pyproject.toml uv.lock
	@echo "umi: installing into $(VENV) (once)"
	@test -e $(VENV)/.dev || $(SYNC) --extra demo
	@touch $@

$(VENV)/.dev: $(VENV)/.uv pyproject.toml uv.lock
	@echo "umi: installing the development tools into $(VENV) (once)"
	@$(SYNC) $(EXTRAS)
	@touch $@ $(VENV)/.demo

$(VENV)/.bench: $(VENV)/.dev
	@echo "umi: installing the peers for the benchmarks into $(VENV) (once)"
	@$(SYNC) --extra bench
	@touch $@
