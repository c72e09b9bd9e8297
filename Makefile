# Everything a newcomer or CI needs; the environment is made in .venv and kept.
PYTHON ?= python3
VENV := .venv
# Tests wait more than they compute, so there are more workers than cores; files stay together,
# in the order of tests/conftest.py.
PARALLEL ?= -n 5 --dist loadfile --no-loadscope-reorder
BIN := $(VENV)/bin
# Two stages of one environment: what a job needs, and then what tests and checks need.
FOR_JOBS := $(VENV)/.for-jobs
INSTALLED := $(VENV)/.installed
PINNED := constraints/base.txt
# Builds too: rsctl's own is an editable one.
INSTALL := .ci/uv pip install --quiet --python $(BIN)/python -c $(PINNED) -b $(PINNED) uv \
    -r examples/quickstart/requirements.txt

.PHONY: quickstart dev test lint bench schema docs pictures dist clean

quickstart: $(FOR_JOBS)
	$(BIN)/rsctl submit examples/quickstart/job.yaml
	@printf '%s\n' '' 'Type next:' \
	    '  source .venv/bin/activate            to put `rsctl` on the PATH of this shell' \
	    '  rsctl report @last                   to write an HTML report of this run' \
	    '  rsctl submit SCRIPT.py --workers 2   to run your own script; add its arguments after --'

dev: $(INSTALLED)

# TEST_OPTIONS: more options for pytest, such as --cov=rsctl.
test: $(INSTALLED)
	$(BIN)/python -m pytest $(PARALLEL) $(TEST_OPTIONS)

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell
	$(BIN)/python tools/reference/generate.py --check
	$(BIN)/python tools/reference/claims.py
	$(BIN)/python tools/prose.py

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks

# What is made of the code and its data: the catalogue as JSON, the JSON Schema, docs/reference.
schema: $(INSTALLED)
	$(BIN)/python -m rsctl.estimate.catalog.compile
	$(BIN)/rsctl schema > schema/rsctl.schema.json
	$(BIN)/python tools/reference/generate.py

# The documentation site, in site/: it fails at a warning, such as a link that leads nowhere.
docs: $(INSTALLED)
	.ci/pinned-venv .docs-venv constraints/docs.txt mkdocs-material pyte
	NO_MKDOCS_2_WARNING=1 .docs-venv/bin/mkdocs build --quiet --strict

# The pictures of the documentation, from real runs.
pictures: docs
	PATH=$(CURDIR)/$(BIN):$$PATH .docs-venv/bin/python tools/pictures.py

# A wheel that runs on any Linux with this processor, installed and tried in an environment of its own.
dist: $(INSTALLED)
	rm -rf dist
	RSCTL_CORE=portable .ci/uv build --quiet --build-constraints $(PINNED) --out-dir dist
	.ci/try-wheel dist/*.whl

$(BIN)/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and \
	    "rsctl needs Python 3.10 or newer: add PYTHON=python3.12, or another one")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq -c $(PINNED) uv

# At its end what jobs import is compiled, once: uv compiles nothing, and each process would by itself.
$(FOR_JOBS): pyproject.toml $(PINNED) examples/quickstart/requirements.txt | $(BIN)/uv
	$(INSTALL) -e '.[local]'
	@env -u PYTHONDONTWRITEBYTECODE sh -c '\
	    $(BIN)/python -c "import sklearn.model_selection" & \
	    $(BIN)/python -c "import torch._dynamo, torch.distributed.run"; wait'
	touch $@

# The first stage has built the core.
$(INSTALLED): $(FOR_JOBS)
	RSCTL_CORE=none $(INSTALL) -e '.[local,dev]'
	touch $@

clean:
	rm -rf $(VENV) .docs-venv .python site
