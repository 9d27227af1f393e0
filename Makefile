# make run: the app on a sample model.  make test: what is quick, and one of each slow kind.
# make test-all: every test.  make check: ruff and mypy.  make check-js: eslint and tsc (needs npm).
# make docs: the documents as a site, in site/.  make setup: .venv alone.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8501
PYTEST_ARGS ?=

# Tests start some hundred processes, each of which would compile every module anew: 0.4 s.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup run test test-all check check-js docs

setup: $(VENV)/.installed
run: $(VENV)/.installed
	$(BIN)/streamlit run app.py --server.port $(PORT)

test: $(VENV)/.installed-dev check
	$(BIN)/python -m pytest -n 2 --dist loadfile $(PYTEST_ARGS)

test-all: $(VENV)/.installed-dev check
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --run-slow $(PYTEST_ARGS)

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check-js: node_modules/.installed
	npm run --silent check

node_modules/.installed: package.json package-lock.json
	npm ci --silent --no-audit --no-fund
	touch $@

# A virtual environment of its own: the reference is made from the source, which nothing imports.
docs: .venv-docs/.installed
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict

.venv-docs/.installed: requirements-docs.txt
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/pip install --quiet --disable-pip-version-check -r requirements-docs.txt
	touch $@

$(VENV)/.installed: requirements.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Graph Workbench needs Python 3.11 or newer: make PYTHON=python3.11 setup")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.txt
	touch $@

$(VENV)/.installed-dev: requirements-dev.txt requirements-rivals.txt requirements-ray.txt requirements-saturation.txt $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	touch $@
