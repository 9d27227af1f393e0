# make run: the app on a sample model.  make test: what is quick, and one of each slow kind.
# make test-all: every test.  make check: ruff and mypy.  make setup: .venv alone.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8501
PYTEST_ARGS ?=

# Tests start some hundred processes, each of which would compile every module anew: 0.4 s.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup run test test-all check

setup: $(VENV)/.installed
run: $(VENV)/.installed
	$(BIN)/streamlit run app.py --server.port $(PORT)

test: $(VENV)/.installed-dev check
	$(BIN)/python -m pytest -n 2 --dist loadfile $(PYTEST_ARGS)

test-all: $(VENV)/.installed-dev check
	$(BIN)/python -m pytest -n 2 --dist loadfile --run-slow $(PYTEST_ARGS)

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(VENV)/.installed: requirements.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Graph Workbench needs Python 3.11 or newer: make PYTHON=python3.11 setup")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.txt
	touch $@

$(VENV)/.installed-dev: requirements-dev.txt $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	touch $@
