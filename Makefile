# make run: the app on a sample model.  make test: what is quick, of long tables four cases and a sixth of the others.
# make test-ci: all that is quick, an eighth of the slow tests, and one in ten of the thorough ones, others for each commit.  make test-all: every test.  make check: ruff and mypy.  make check-js: eslint and tsc (needs npm).
# make docs: the documents as a site, in site/.  make setup: .venv alone, with the project itself (editable).
# make setup-dev: the same, with what tests and checks need.
# make requirements: the versions of requirements*.txt, anew from pyproject.toml.
# make test-oldest: some of the tests with the oldest versions that pyproject.toml allows.
# make mutants: whether tests notice changes of logic, one at a time; MUTANTS="ir --one-in 10" is a sample of one package.
# make coverage: which lines the quick tests of PYTEST_ARGS run, as a figure (all quick ones without it: minutes).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8501
PYTEST_ARGS ?=
MUTANTS ?=
TORCH := torch==2.13.0

# Tests start some hundred processes, each of which would compile every module anew: 0.4 s.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup setup-dev run test test-ci test-all check check-js docs requirements coverage mutants test-oldest

setup: $(VENV)/.installed
setup-dev: $(VENV)/.installed-dev
run: $(VENV)/.installed
	$(BIN)/streamlit run app.py --server.port $(PORT)

test: $(VENV)/.installed-dev check
	$(BIN)/python -m pytest -n 3 --dist loadfile --cases-one-in 6 $(PYTEST_ARGS)

# A test in a browser that fails is tried once more, and the summary names it: with two processes of tests on two cores,
# a page can be drawn later than anyone would wait for it. Every other test has one try.
SLOW := -n 3 --dist loadfile --no-loadscope-reorder -rfEsR
test-ci: $(VENV)/.installed-dev check
	$(BIN)/python -m pytest $(SLOW) --run-slow --slow-one-in 8 --run-thorough 10 $(PYTEST_ARGS)

test-all: $(VENV)/.installed-dev check
	$(BIN)/python -m pytest $(SLOW) --run-slow --run-thorough 1 $(PYTEST_ARGS)

coverage: $(VENV)/.installed-dev
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest $(PYTEST_ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --skip-covered --skip-empty

mutants: $(VENV)/.installed-dev
	$(BIN)/python -m tests.mutation $(MUTANTS)

OLDEST := $(addprefix tests/test_,cli_optimize.py pipeline.py passes.py verify_end.py networkx.py placement.py \
	layout_optimal.py exact.py executor.py measured.py load.py written_opset.py without_torch.py)
test-oldest: .venv-oldest/.installed
	.venv-oldest/bin/python -m pytest $(PYTEST_ARGS) $(OLDEST)

.venv-oldest/.installed: requirements-oldest.txt requirements-dev.txt pyproject.toml
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/pip install --quiet --disable-pip-version-check -r requirements-oldest.txt
	grep -E '^(hypothesis|pytest|z3-solver)==' requirements-dev.txt >.venv-oldest/tests.txt
	.venv-oldest/bin/pip install --quiet --disable-pip-version-check -c requirements-oldest.txt -r .venv-oldest/tests.txt
	.venv-oldest/bin/pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

check: $(VENV)/.installed-dev
	@echo 'Check 1 of 2: ruff, seconds'
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo 'Check 2 of 2: mypy, half a minute where it ran before, else some minutes'
	@$(BIN)/mypy

check-js: node_modules/.installed
	npm run --silent check

node_modules/.installed: package.json package-lock.json
	npm ci --silent --no-audit --no-fund
	touch $@

# MkDocs has a virtual environment of its own: the library's reference is made from the source, which nothing imports.
docs: .venv-docs/.installed $(VENV)/.installed-dev
	$(BIN)/python docs/make_commands.py
	$(BIN)/python docs/make_passes.py
	$(BIN)/python docs/make_rules.py
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict

.venv-docs/.installed: requirements-docs.txt
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/pip install --quiet --disable-pip-version-check -r requirements-docs.txt
	touch $@

# pyproject.toml says which packages, uv which versions: those that the files have, as long as they fit.
UV := .venv-requirements/bin/uv pip compile --quiet --annotation-style line --custom-compile-command "make requirements"
NEWEST := $(UV) --universal --fork-strategy fewest
requirements: .venv-requirements/.installed
	echo '$(TORCH)' >.venv-requirements/torch.txt
	$(NEWEST) pyproject.toml --extra torch --extra app --constraint .venv-requirements/torch.txt --python-version 3.11 -o requirements.txt
	$(NEWEST) pyproject.toml --extra all --group dev --constraint requirements.txt --python-version 3.11 -o requirements-dev.txt
	$(NEWEST) --group docs --python-version 3.11.5 -o requirements-docs.txt
	$(UV) pyproject.toml --extra torch --resolution lowest-direct --python-version 3.11 --python-platform linux -o requirements-oldest.txt

.venv-requirements/.installed:
	$(PYTHON) -m venv .venv-requirements
	.venv-requirements/bin/pip install --quiet --disable-pip-version-check uv==0.13.9
	touch $@

# torch comes first, so that no other package pulls another build of it; of the project itself only links are laid.
# On a terminal pip shows what it loads and how far it is; in a log each step has its line alone.
PIP_INSTALL = $(BIN)/pip install --disable-pip-version-check $(shell test -t 2 || echo --quiet)
$(VENV)/.installed: requirements.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Graph Workbench needs Python 3.11 or newer: make PYTHON=python3.11 setup")'
	@echo 'Once: .venv is prepared. 1 of 2: $(TORCH), 0.2 GB to load, with its libraries for GPUs 3 GB: 5 minutes at 100 Mbit/s'
	$(PYTHON) -m venv $(VENV)
	@$(PIP_INSTALL) $(TORCH)
	@echo '2 of 2: the app, ONNX Runtime and what they need (requirements.txt), 0.2 GB to load: half a minute'
	@$(PIP_INSTALL) -r requirements.txt
	@$(PIP_INSTALL) --quiet --no-deps --editable .
	touch $@

$(VENV)/.installed-dev: requirements-dev.txt $(VENV)/.installed
	@echo 'Once: what tests need, all extras among it (requirements-dev.txt), 0.3 GB to load: half a minute'
	@$(PIP_INSTALL) -r requirements-dev.txt
	touch $@
