# The two commands of a new checkout:
#
#   make demo     install, convert the bundled NCA sample to Zarr, read it back, draw its partition matrix
#   make test     install and run the tests
#
# Needed: git, make and Python >= 3.12.  Everything is installed into .venv with the pins of .ci/constraints.txt.

.PHONY: help demo test test-all costs coverage coverage-of-kernels prereleases lint docs bench bench-large soak clean
.DELETE_ON_ERROR:

# A Python of one's choice: make test PYTHON=/path/to/python
PYTHON ?=
# Tests run in this many processes: more than there are processors, for many wait for processes of their own.
JOBS ?= 3
# Hundreds of tests start processes, each of which would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE
# Further arguments: make test ARGS='-k grid'; make bench ARGS='--small gather'
ARGS ?=
# Watch which lines the tests reach; the report comes later.
COVER := --cov --cov-report= --cov-fail-under=0

VENV := .venv
# Pre-releases replace pinned versions, in an environment of their own.
NEXT := .venv-prereleases
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
PINS := .ci/constraints.txt

help:
	@sed -n 's/^#   //p' Makefile
	@echo "make test-all   run the tests with all parameters and ten times as many examples"
	@echo "make costs    measure what tests cost, of which make test leaves out what takes longest"
	@echo "make coverage   measure which lines the tests reach, kernels without compilation"
	@echo "make prereleases   run the tests with pre-releases of xarray, zarr and dask"
	@echo "make lint     ruff and mypy"
	@echo "make docs     build the documentation into site/"
	@echo "make bench    run the benchmarks and print their table"
	@echo "make bench-large   measure indexes of 3,155,760,000 entries"
	@echo "make soak     run the long fuzz, kill and scale tests"
	@echo "make clean    remove what the other targets made"

demo: $(VENV)/.installed-test
	$(BIN)/python -m cfagg.demo demo_output

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(ARGS)

test-all: $(VENV)/.installed-test
	CFAGG_TEST_EFFORT=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not soak" $(ARGS)

costs: $(VENV)/.installed-test
	$(BIN)/python -m tests.costs -n $(JOBS) --dist worksteal $(ARGS)

# Compiled code cannot be watched: the kernels run a second time as plain Python, for which few examples do.
coverage:
	$(MAKE) test-all ARGS="$(COVER) $(ARGS)"
	$(MAKE) coverage-of-kernels

coverage-of-kernels: $(VENV)/.installed-test
	NUMBA_DISABLE_JIT=1 CFAGG_TEST_EFFORT=0.1 $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal $(COVER) --cov-append \
	    tests/kernels tests/formats/values/test_filters.py tests/formats/zarr/test_codecs.py
	$(BIN)/python -m coverage report --skip-covered --sort=cover

prereleases:
	$(MAKE) VENV=$(NEXT) $(NEXT)/.installed-test
	$(NEXT)/bin/python -m pip --disable-pip-version-check install --quiet --upgrade --pre xarray zarr dask distributed
	$(NEXT)/bin/python -m pytest -n $(JOBS) --dist worksteal $(ARGS)

lint: $(VENV)/.installed-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.installed-docs
	$(BIN)/mkdocs build --strict --quiet -f .mkdocs.yml

bench: $(VENV)/.installed-bench
	$(BIN)/python -m tests.benchmarks.run $(ARGS)

bench-large: $(VENV)/.installed-bench
	$(BIN)/python -m tests.benchmarks.large_index $(ARGS)

soak: $(VENV)/.installed-test
	$(BIN)/python -m tests.benchmarks.peers anemoi iris
	$(BIN)/python -m tests.checking.real.packages
	CFAGG_TEST_EFFORT=3 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "soak or full or hypothesis" $(ARGS)

clean:
	rm -rf $(NEXT) build dist site demo_output .bench .soak .pytest_cache .mypy_cache .ruff_cache .hypothesis cfagg.egg-info
	find cfagg kernels conventions tests sample_data docs -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp for each set of extras; a changed pyproject.toml or pin installs again.
$(VENV)/.installed-%: pyproject.toml $(PINS) | $(BIN)/python
	$(PIP) install --quiet -c $(PINS) setuptools
	$(PIP) install --quiet -c $(PINS) --no-build-isolation -e '.[$*]'
	@touch $@

# Candidates are run, not only looked up: a version manager's shim may exist for a Python that is not installed.
$(BIN)/python:
	@for p in $(PYTHON) python3.13 python3.12 python3.14 python3 python "$$HOME"/.pyenv/versions/3.1[2-9]*/bin/python; do \
	    "$$p" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 12))' 2>/dev/null || continue; \
	    echo "creating $(VENV) with $$("$$p" --version)"; \
	    exec "$$p" -m venv $(VENV); \
	done; \
	echo "cfagg needs Python >= 3.12 with its venv module (Debian: python3-venv); name one with PYTHON=/path/to/python" >&2; \
	exit 1
