# Everything a newcomer runs. Each target first makes .venv if it is not there or is out of date.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test test-all test-browser check format clean

demo: $(READY)
	$(BIN)/dwindle demo --out demo

# Two processes of one thread each: tiny tensors gain nothing from more.
test: check
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

test-all: check
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 -m ""

test-browser: $(READY)
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
	  { echo "no browser here: on Debian, type apt-get install chromium chromium-driver"; exit 2; }
	$(BIN)/pytest -m browser

check: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# The stamp is written last, so an interrupted installation is taken up again.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "dwindle needs Python 3.11 or newer: name one with 'make $(MAKECMDGOALS) PYTHON=python3.11'"; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(READY)

clean:
	rm -rf .venv demo .mypy_cache .pytest_cache .ruff_cache .hypothesis
