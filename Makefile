# Everything a fresh machine needs is Python 3.11 or newer with venv, and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Everything is pinned, so that there is nothing to work out: --no-deps saves the time
PINNED := $(PIP) --require-hashes --no-deps
RUN_STAMP := $(VENV)/.runs
DEV_STAMP := $(VENV)/.develops
SITE   := $(VENV)/site

LOCK   := uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -q

# What is formatted and linted; mypy has the same list in pyproject.toml
SOURCES := src tests benchmarks examples tools docs/images

BENCH ?=
BENCH_FLAGS ?=
SEEDS ?= 1..2000
SCENARIOS ?=

.DEFAULT_GOAL := help
.PHONY: help install run walk walk-aws test check slow wheels browser docs image image-test control-plane helm monitoring charts parity bench scoreboard bench-compare conformance lock clean

help: ## say what each target does
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

install: $(DEV_STAMP) ## make .venv with the program and the development tools in it

$(RUN_STAMP): requirements/run.txt requirements/build.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "karpenter needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@echo "[1/3] making $(VENV), where everything is installed; 'make clean' removes it"
	@$(PYTHON) -m venv $(VENV)
	@echo "[2/3] fetching the libraries karpenter runs on (requirements/run.txt), about 20 MB"
	@$(PINNED) -r requirements/run.txt -r requirements/build.txt
	@echo "[3/3] installing karpenter from this folder"
	@$(PIP) --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q src  # else every start does so where Python may write no bytecode
	@touch $@

$(DEV_STAMP): requirements/dev.txt $(RUN_STAMP)
	@echo "fetching the development tools and a simulated AWS (requirements/dev.txt), about 60 MB"
	@$(PINNED) -r requirements/dev.txt
	@touch $@

run: $(RUN_STAMP) ## a cluster in this process, ready for kubectl; Ctrl-C stops it
	$(BIN)/karpenter sandbox --nodes 1 --example

walk: install ## the scale walk of examples/scale-walk, with kubectl
	$(BIN)/python examples/scale-walk/walk.py

walk-aws: install ## the same on a simulated AWS
	$(BIN)/python examples/scale-walk/walk.py --provider aws

test: install ## the fast tests
	$(BIN)/python -m pytest -n auto --dist worksteal -q -m "not slow and not storm"

check: install ## format, lint, types and import direction
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports

slow: install wheels browser ## the slower tests: a real control plane, crashes at every write, storms
	$(BIN)/python -m pytest -n 2 --dist loadfile -q -m "slow and not image"
	$(BIN)/python -m pytest -n auto -q -m storm

wheels: install ## fetch the pinned wheels for every Python, once, for the tests that install them
	@PYTHONPATH=tools $(BIN)/python -m releasing.wheels || \
	  echo "wheels could not be fetched: tests that install them will be skipped" >&2

browser: install ## what drives a browser in the tests of the pages, and what checks them; Debian's chromium is needed beside it
	@$(PINNED) -r requirements/browser.txt || \
	  echo "playwright could not be fetched: tests in a browser will be skipped" >&2
	@test -f build/browser/axe.min.js || $(BIN)/python tools/vendor.py checks || \
	  echo "axe-core could not be fetched: tests of what pages are to screen readers will be skipped" >&2
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get install -y -q chromium >/dev/null; } || \
	  echo "no chromium on this machine (apt-get install chromium): tests in a browser will be skipped" >&2

docs: install $(SITE)/.builds ## build the site of the documentation in build/site/html, and check its links
	$(BIN)/python tools/docs_site.py stage
	$(SITE)/bin/zensical build --strict
	$(BIN)/python tools/docs_site.py check

$(SITE)/.builds: requirements/docs.txt $(RUN_STAMP)
	@echo "fetching what builds the site (requirements/docs.txt), about 10 MB"
	@$(PYTHON) -m venv $(SITE)
	@$(SITE)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/docs.txt
	@touch $@

image: install ## build the container image with buildah, podman or docker
	$(BIN)/python tools/image.py prepare
	$(BIN)/python tools/image.py build $(if $(BASE),--base $(BASE))

image-test: install ## build it twice without a daemon, and look at what is in it (needs Debian's buildah, skopeo, umoci, mmdebstrap; root)
	$(BIN)/python -m pytest -q -m image

control-plane: install ## build a real control plane, helm, promtool and Karpenter's own controller for the slow tests (needs Go)
	PYTHONPATH=tests $(BIN)/python -m control_plane build
	$(BIN)/python -m benchmarks.peers

helm: install ## build helm for the tests of the charts (needs Go)
	PYTHONPATH=tests $(BIN)/python -m control_plane build helm

monitoring: install ## write the dashboards and the reference of metrics
	$(BIN)/python tools/dashboards.py
	$(BIN)/python tools/metrics_reference.py

charts: helm ## write what the charts, and the roles of examples/install, have from elsewhere
	PYTHONPATH=tests $(BIN)/python tools/charts.py

parity: install ## our decisions beside Karpenter's on random problems; SEEDS=1..10000 for more (needs Go)
	PYTHONPATH=tests $(BIN)/python -m parity $(SEEDS)

bench: install ## the benchmarks, an hour and a quarter in all; BENCH=solver for one, BENCH_FLAGS=--smoke
	$(BIN)/python -m benchmarks $(BENCH) $(BENCH_FLAGS)

scoreboard: install ## run the standard scenarios of examples/scenarios, compare their figures, and write docs/scoreboard.md
	$(BIN)/python tools/scoreboard.py $(SCENARIOS)

bench-compare: install ## our solver and controller beside Karpenter's own (needs Go)
	$(BIN)/python -m benchmarks compare $(BENCH_FLAGS)
	$(BIN)/python -m benchmarks endtoend --beside $(BENCH_FLAGS)

conformance: install ## which rows of the conformance ledger have passing tests; those of `make slow` count if they ran on this tree
	$(BIN)/python -m pytest -n auto -q -m "row and not slow and not storm" --conformance

lock: ## resolve the pinned requirement files anew (needs uv)
	$(LOCK) --upgrade pyproject.toml --extra aws --extra aws-sandbox --extra optimize --group dev -o requirements/dev.txt
	$(LOCK) --constraints requirements/dev.txt --upgrade pyproject.toml -o requirements/run.txt
	$(LOCK) --constraints requirements/dev.txt --upgrade pyproject.toml --extra aws -o requirements/image.txt
	$(LOCK) --constraints requirements/dev.txt --upgrade --group build -o requirements/build.txt
	$(LOCK) --upgrade --group installer -o requirements/installer.txt
	$(LOCK) --upgrade --group docs -o requirements/docs.txt
	$(LOCK) --constraints requirements/dev.txt --upgrade --group browser -o requirements/browser.txt

clean: ## forget the virtual environment and every cache
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
