# Every target sets up what it needs. Only python3 (>= 3.11), make and the package indexes are required.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.plugreg-setup
ARGS   ?=
# Test processes: `make test JOBS=0` runs everything in one process, as a debugger wants it.
JOBS   ?= auto

UV_COMPILE := $(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-emit-find-links --no-header

SERVER := --extra registry --extra postgres --extra s3 --extra otel

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo cluster chaos test check check-style check-types check-floors check-schemas check-docs \
	format lock schemas docs wheel bench clean

help: ## show these targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

setup: $(STAMP) ## create .venv with the locked dependencies
	@echo "$(VENV) is ready"

$(STAMP): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "plugreg needs Python 3.11 or newer, and \`$(PYTHON)\` is not. Name another one: make PYTHON=python3.12 setup" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "\`$(PYTHON)\` cannot make virtual environments. On Debian and Ubuntu, install the package python3-venv." >&2; exit 1; }
	@echo "Creating $(VENV) with the locked dependencies (a minute or two, the first time)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: $(STAMP) ## the main job from end to end, its output explained
	@$(BIN)/python examples/demo.py $(ARGS)

cluster: $(STAMP) ## two registries, PostgreSQL, S3 and Caddy here, and the demo through them; ARGS=--stay keeps them
	@$(BIN)/python -m infra.cluster $(ARGS)

chaos: $(STAMP) ## load on that cluster while each part of it is killed; shorter: make chaos ARGS="--seconds 20"
	@$(BIN)/python -m infra.chaos $(ARGS)

test: $(STAMP) ## every test; one of them: make test ARGS="tests/test_names.py -k range"
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(ARGS)

check: check-style check-types check-floors check-schemas check-docs ## style, types, floors, and what is generated

check-style: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

check-types: $(STAMP)
	$(BIN)/mypy

check-floors: $(STAMP)
	$(BIN)/lint-imports

check-schemas: $(STAMP)
	$(BIN)/python -m plugreg_schemas.export --check

check-docs: $(STAMP)
	$(BIN)/python docs/help_blocks.py --check

format: $(STAMP) ## format the code and apply the safe fixes
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

lock: $(STAMP) ## remake requirements/*.txt from pyproject.toml; newer versions: make lock ARGS=--upgrade
	$(UV_COMPILE) $(ARGS) $(SERVER) --group dev --output-file requirements/dev.txt
	$(UV_COMPILE) $(ARGS) $(SERVER) --constraints requirements/dev.txt --output-file requirements/runtime.txt
	@! grep -n '://' requirements/*.txt || { echo "A lock file names an address; it must not." >&2; exit 1; }

schemas: $(STAMP) ## remake the published JSON Schemas
	$(BIN)/python -m plugreg_schemas.export

docs: $(STAMP) ## remake the help texts shown in the documents
	$(BIN)/python docs/help_blocks.py

wheel: $(STAMP) ## build dist/plugreg-*.whl
	$(BIN)/python -m build --no-isolation --wheel --outdir dist

bench: $(STAMP) ## measure, side by side with what it is compared to
	$(BIN)/python bench/run.py $(ARGS)

clean: ## remove everything that make made
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find client registry schemas tests examples docs bench infra -name __pycache__ -type d -prune -exec rm -rf {} +
