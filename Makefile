# Everything a newcomer or CI needs; the environment is made in .venv and kept.
PYTHON ?= python3
VENV := .venv
# Tests wait more than they compute, so there are more workers than cores; files stay together,
# in the order of tests/conftest.py.
PARALLEL ?= -n 5 --dist loadfile --no-loadscope-reorder
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# By variables, since -c does not hold for what builds rsctl; newer versions of pip have two.
PINNED := PIP_CONSTRAINT=$(CURDIR)/constraints.txt PIP_BUILD_CONSTRAINT=$(CURDIR)/constraints.txt

.PHONY: quickstart test lint bench schema clean

quickstart: $(INSTALLED)
	$(BIN)/rsctl submit examples/quickstart/job.yaml
	@printf '%s\n' '' 'Next, in this shell:' \
	    '  source .venv/bin/activate            so that `rsctl` is found' \
	    '  rsctl report @last                   the run as one HTML file' \
	    '  rsctl metrics @last --plot           its curves in the terminal' \
	    '  rsctl submit SCRIPT.py --workers 2   a script of your own; -- and its arguments follow' \
	    '  rsctl init SCRIPT.py                 a job file for it'

test: $(INSTALLED)
	$(BIN)/python -m pytest $(PARALLEL)

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python docs/generate.py --check
	$(BIN)/python tools/prose.py

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks

# What is made of the code and its data: the catalogue as JSON, the JSON Schema, docs/reference.
schema: $(INSTALLED)
	$(BIN)/python -m rsctl.estimate.catalog.compile
	$(BIN)/rsctl schema > schema/rsctl.schema.json
	$(BIN)/python docs/generate.py

$(INSTALLED): pyproject.toml constraints.txt examples/quickstart/requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(PINNED) $(BIN)/python -m pip install --quiet -e '.[local,dev]' \
	    -r examples/quickstart/requirements.txt
	touch $@

clean:
	rm -rf $(VENV)
