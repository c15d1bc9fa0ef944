# Two commands do everything on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# Versions of opentelemetry-sdk that the agent side is tested with, beside the newest: the oldest, and one in the middle.
SDKS   := $(VENV)/sdk-1.30.0 $(VENV)/sdk-1.37.0

.PHONY: run test check setup bench bench-live incidents accuracy requirement record clean

## run: set up, then replay a recorded incident, show ledger and findings, and draw them
run: $(VENV)/.run
	$(BIN)/lowwater replay examples/incident.otlp.jsonl --html incident.html
	@echo "The same, drawn: open incident.html in a browser."

## test: set up, then style, types, import layers and all tests
test: $(VENV)/.dev $(VENV)/.programs $(VENV)/.node $(SDKS)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q

## setup: everything for development
setup: $(VENV)/.dev

## bench: measure replay against protobuf parsing in one run
bench: $(VENV)/.dev
	$(BIN)/python tests/benchmarks/replay.py

## bench-live: the live detector under load, next to rotel, in one run
bench-live: $(VENV)/.dev
	$(BIN)/python tests/benchmarks/live.py

## incidents: fit the reference incidents again and write docs/incidents.md
incidents: $(VENV)/.dev
	$(BIN)/python tests/benchmarks/incidents.py --fit

## accuracy: judge labelled runs on the seeds for scoring and write docs/accuracy.md (about 15 minutes on one core)
accuracy: $(VENV)/.dev
	$(BIN)/python tests/benchmarks/accuracy.py --score --write docs/accuracy.md

## requirement: compare learners of the requirement and write docs/requirement.md (about 8 minutes on one core)
requirement: $(VENV)/.dev
	$(BIN)/python -m tests.benchmarks.requirement --score --streams 10 --write docs/requirement.md

## record: record traces of real frameworks again, each in an environment of its own, and measure how they are read
record: $(VENV)/.dev
	$(BIN)/python tests/record/record.py
	$(BIN)/python tests/detector/recordings.py

$(VENV)/.pip:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1'
	touch $@

$(VENV)/.run: $(VENV)/.pip pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[detector]'
	touch $@

$(VENV)/.dev: $(VENV)/.run
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[all]' --group dev
	touch $@

# Programs that tests run for real: Debian's Prometheus and Chromium, and Node.js with its stock exporters.
$(VENV)/.programs: $(VENV)/.pip
	{ command -v prometheus && command -v promtool && command -v chromium; } >/dev/null || { apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends prometheus chromium \
	    fonts-dejavu-core >/dev/null; } || \
	    { echo "tests need prometheus and chromium (Debian: apt-get install prometheus chromium)" >&2; exit 1; }
	touch $@

$(VENV)/.node: $(VENV)/.pip tests/node/package.json
	command -v npm >/dev/null || { echo "tests need Node.js 20 or later, with npm" >&2; exit 1; }
	npm install --prefix tests/node --silent --no-audit --no-fund --package-lock=false
	touch $@

$(VENV)/sdk-%: $(VENV)/.pip pyproject.toml
	$(PYTHON) -m venv $@
	$@/bin/pip install --quiet 'opentelemetry-sdk==$*' 'pytest>=9' --editable .
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
