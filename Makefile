# `make serve` and `make test` need Python >= 3.11 and make; everything else goes into .venv.
#
#   make serve MODELS=en-de,de-en with stronger models, which are downloaded once (`attentive models --available` lists them)
#   PORT=9000 make serve          another port (HOST, and every ATTENTIVE_* variable, work the same way)
#   make serve TORCH=1            with PyTorch, which by default is installed only for GPUs and where the CPU backend cannot run
#   make serve TORCH_INDEX=URL    take torch from this package index (a CPU-only or a particular CUDA build)
#   make serve PIP_ARGS="..."     further arguments for pip

PORT ?= $(or $(ATTENTIVE_PORT),8000)
HOST ?= $(or $(ATTENTIVE_HOST),127.0.0.1)
VENV ?= .venv
PIP_ARGS ?=
TORCH_INDEX ?=
CPU_BACKEND = $(PYTHON) -c "from model.backends.cpu.isa import available; available()" && { command -v g++ || command -v c++ || command -v clang++; }
TORCH ?= $(shell { test -e /dev/nvidiactl || test -e /dev/dxg || ! { $(CPU_BACKEND); }; } >/dev/null 2>&1 && echo 1)
BUILD = python -m model.backends.cpu build --isa auto
PYTEST_ARGS ?=
# Test processes. Each takes about 1 GB; PYTEST_WORKERS=0 runs the tests in one process, one after the other.
PYTEST_WORKERS ?= 2

PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3.14 python3 python; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$python; break; }; done)

BIN := $(VENV)/bin
# Most installed modules are never imported, so none is compiled ahead.
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet install --no-compile -c constraints.txt $(PIP_ARGS)

# Without a network pip says that there is no such version, or that the pinned versions are in conflict.
FETCHED = 2>$(VENV)/pip.log || { if grep -q "from versions: none\|ResolutionImpossible" $(VENV)/pip.log; then \
	echo "The packages cannot be fetched: the network or the package index cannot be reached, or it lacks a pinned version for this Python; see PIP_ARGS." >&2; \
	else cat $(VENV)/pip.log >&2; fi; exit 1; }

.PHONY: serve wheel test test-unit numeric kernels sanitize conformance check audit lock wheels coverage linear fuzz install install-dev cpu-backend clean
.DEFAULT_GOAL := serve

serve: install
	exec $(BIN)/attentive serve --host $(HOST) --port $(PORT) $(if $(MODELS),--models $(MODELS))

# dist/*.whl has the page, the recipes, the embedded model and the CPU backend compiled for all instruction sets of MACHINE or for
# ISA: where it is installed, nothing is compiled. CXX=aarch64-linux-gnu-g++ MACHINE=aarch64 make wheel makes the one for ARM64.
# The wheel is for systems whose glibc has the newest symbol that the compiled files need.
MACHINE ?= $(shell uname -m)
ISA ?= all
DIST ?= dist
STAGE ?= build/wheel
CSRC := $(STAGE)/model/backends/cpu/csrc
wheel: $(VENV)/python-ready
	rm -rf $(STAGE) && mkdir -p $(STAGE) && cp -r pyproject.toml README.md LICENSE attentive.py model server training weights $(STAGE)
	rm -f $(CSRC)/attentive-* $(CSRC)/trial-*
	cd $(STAGE) && $(abspath $(BIN))/python -m model.backends.cpu build --isa $(ISA) --machine $(MACHINE)
	$(BIN)/python -m pip --disable-pip-version-check --quiet wheel $(PIP_ARGS) --no-deps --wheel-dir $(DIST) $(abspath $(STAGE)) --config-settings=--build-option=--plat-name=manylinux_$$( \
		cat $(CSRC)/attentive-* | grep -ao "GLIBC_2\.[0-9]*" | sort -V | tail -n 1 | sed "s/.*_//; s/[.]/_/")_$(MACHINE)

# The tests start about a hundred Python processes, and each would compile all modules without the files of compiled ones.
test test-unit numeric conformance coverage: export PYTHONDONTWRITEBYTECODE :=

# Without the reorder, long files of few tests come early and not at the end, where one core would wait.
test: install-dev
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

# The unit tests without those marked `slow`: under a minute on two cores.
test-unit: install-dev
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) -m "not slow" $(PYTEST_ARGS) tests/unit

# The tests that compare numbers, with PyTorch's kernels of other processors. A setting that asks for more than the processor has
# changes nothing: the first line of each run names what it has.
NUMERIC_SETTINGS := ONEDNN_MAX_CPU_ISA=SSE41 ONEDNN_MAX_CPU_ISA=AVX2 ONEDNN_MAX_CPU_ISA=AVX512_CORE_VNNI ONEDNN_MAX_CPU_ISA=AVX512_CORE_AMX \
	ATEN_CPU_CAPABILITY=avx2 ATEN_CPU_CAPABILITY=default
numeric: install-dev
	failed=; for setting in $(NUMERIC_SETTINGS); do \
		env $$setting $(BIN)/python -m pytest -n $(PYTEST_WORKERS) -m "numeric and not programs" $(PYTEST_ARGS) || failed="$$failed $$setting"; \
	done; test -z "$$failed" || { echo "Failed with:$$failed" >&2; exit 1; }

# The tests of the C++ code under AddressSanitizer with UndefinedBehaviorSanitizer, and under ThreadSanitizer. Needs g++.
SANITIZED := tests/unit/model/backends/cpu/test_engine.py tests/unit/model/backends/cpu/test_backend.py \
	tests/unit/model/backends/cpu/test_tensors.py
sanitize: install-dev
	LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=16 \
		UBSAN_OPTIONS=halt_on_error=1 $(BIN)/python -m pytest --fail-on-skip --sanitize address,undefined $(PYTEST_ARGS) $(SANITIZED)
	LD_PRELOAD=$$(g++ -print-file-name=libtsan.so) TSAN_OPTIONS=ignore_noninstrumented_modules=1:halt_on_error=1 \
		$(BIN)/python -m pytest --fail-on-skip --sanitize thread $(PYTEST_ARGS) $(SANITIZED)

# Client libraries, and programs that CI does not install (LibreOffice, QEMU, a cross compiler for ARM64). The summary names the missing ones.
conformance: install-dev
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) -rs -m "programs or not programs" $(PYTEST_ARGS) tests/conformance
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) -rs --dist loadfile -m programs $(PYTEST_ARGS) tests/unit

# The kernels for GPUs: in Triton's interpreter, which needs an older NumPy than the project, and as code for the oldest and a
# recent GPU. Triton in the version of deploy/requirements/gpu.txt and that NumPy lie in a folder before the other packages.
KERNELS := $(VENV)/kernels
kernels: install-dev
	test -d $(KERNELS)/triton || $(BIN)/python -m pip --disable-pip-version-check --quiet install $(PIP_ARGS) --no-deps --target $(KERNELS) \
		$$(sed -n 's/^\(triton==[^ ]*\).*/\1/p' deploy/requirements/gpu.txt) "numpy<2.4" $(FETCHED)
	PYTHONPATH=$(KERNELS):. TRITON_INTERPRET=1 $(BIN)/python tests/support/processors/interpret_kernels.py
	PYTHONPATH=$(KERNELS):. TRITON_CACHE_DIR=$(KERNELS)/cache $(BIN)/python tests/support/processors/compile_kernels.py 75 90

# Lint, format, types and import layers of Python, format of C++, lint and format of JavaScript: the checks of CI that run no tests.
check: install-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@if command -v npx >/dev/null; then cd server/web && npx --yes @biomejs/biome@2.6.8 ci .; else echo "npx is not installed: the JavaScript is not checked."; fi
	$(BIN)/clang-format --dry-run --Werror $$(find model/backends/cpu/csrc -name "*.cpp" -o -name "*.h")

# Line coverage of server/, including workers and other processes. Fails below 90 percent.
coverage: install-dev
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest tests/unit/server tests/integration tests/conformance $(PYTEST_ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

# Processor time at n and at 8 n characters of each syntax. The tests count work; this measures it.
linear: install-dev
	$(BIN)/python -m tests.fuzz.linear_time

# Texts that a hostile model translates, and coverage-guided fuzzing, FUZZ_SECONDS for each target; a fault ends it. Linux only.
FUZZ_SECONDS ?= 60
HOSTILE_TEXTS ?= 200000
HOSTILE_SEED ?= 1
fuzz: install-dev linear
	HOSTILE_TEXTS=$(HOSTILE_TEXTS) HOSTILE_SEED=$(HOSTILE_SEED) $(BIN)/python -m pytest -n 0 tests/unit/server/text/test_hostile_model.py
	EVERY_LANGUAGE=1 $(BIN)/python -m pytest -n 0 tests/integration/test_default_model.py
	$(PIP) --editable ".[fuzz]"
	for target in texts txt glossary srt vtt html md po json yaml xliff docx pptx xlsx pdf odt epub archive; do \
		$(BIN)/python -m tests.fuzz $$target -max_total_time=$(FUZZ_SECONDS) || exit 1; done

# Known vulnerabilities of the pinned packages; needs the network.
audit: install
	$(PIP) pip-audit
	$(BIN)/pip-audit --requirement constraints.txt --no-deps --disable-pip --progress-spinner off

# The packages of the images with their hashes, in the versions of constraints.txt: server.txt, and what tools.txt and gpu.txt
# add to it. Needs the network.
LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -c constraints.txt
# Prints the packages, with the lines of their hashes, that only the second file has.
ADDED := NR == FNR { seen[$$0]; next } !/^ / { added = !($$0 in seen) } added
LOCKED := $(BIN)/python deploy/docker/requirements.py
# Finds out, without that Python, whether each package of the server has a file for it that needs no compiler.
PYTHON_VERSION ?= 3.14
wheels: $(VENV)/python-ready
	mkdir -p build && $(LOCKED) "" > build/wheels.txt
	$(PIP) --dry-run --ignore-installed --only-binary=:all: --python-version $(PYTHON_VERSION) --target build/wheels \
		$(foreach glibc,2_17 2_28,--platform manylinux_$(glibc)_$(MACHINE)) --platform manylinux2014_$(MACHINE) --requirement build/wheels.txt
lock: install
	$(PIP) uv
	cd deploy/requirements && for set in "server redis,otel" "tools redis,otel,export,train torch huggingface-hub" "gpu redis,otel,torch,gpu-metrics"; do set -- $$set; name=$$1; shift; \
		(cd ../.. && $(LOCKED) "$$@" | $(LOCK) - ) > $$name.new && \
		if [ $$name = server ]; then mv server.new server.txt; else awk '$(ADDED)' server.txt $$name.new > $$name.txt; rm $$name.new; fi || exit 1; done
	echo "setuptools>=77" | $(LOCK) - > deploy/requirements/build.txt

install: $(VENV)/installed $(if $(filter-out 0,$(TORCH)),$(VENV)/torch) cpu-backend
install-dev: $(VENV)/installed-dev cpu-backend

# Compiles what is not there for this version and processor. Without a compiler it says so, and PyTorch decodes.
cpu-backend: $(VENV)/python-ready
	@$(BIN)/$(BUILD) >/dev/null || true

$(VENV)/python-ready:
	@$(or $(PYTHON),false) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "Attentive needs Python 3.11 or newer; set PYTHON=/path/to/python3." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip --disable-pip-version-check --quiet uninstall --yes setuptools 2>/dev/null # nothing here uses that of Python 3.11
	touch $@

# The largest package, and the only one that may come from another index.
$(VENV)/torch: $(VENV)/python-ready constraints.txt
	@echo "Installing PyTorch into $(VENV) (once) ..."
	@$(PIP) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch $(FETCHED)
	touch $@

# The CPU backend is compiled meanwhile; the target above waits for it.
$(VENV)/installed: $(VENV)/python-ready pyproject.toml constraints.txt
	@echo "Installing Attentive into $(VENV) ..."
	@$(BIN)/$(BUILD) >/dev/null 2>&1 & $(PIP) --editable . $(FETCHED)
	touch $@

$(VENV)/installed-dev: $(VENV)/installed $(VENV)/torch
	@echo "Installing the development tools into $(VENV) ..."
	@$(PIP) --editable ".[dev]" $(FETCHED)
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
