# Needs git, make and Python 3.11 or later. Everything goes into .venv; nothing outside the checkout is touched.
# pyproject.toml has ranges, for users of the wheel; requirements.lock has one version of everything, and the SHA-256 of
# its files. Only torch is not in it, whose files differ between indexes: its version is in pyproject.toml, [tool.uv].
#
#   PYTHON=python3.12     the interpreter .venv is made with
#   ARGS="..."            more arguments for dvc repro, pytest or the parameters' Hydra overrides
#   JOBS=1                with `make repro` and `make study`: tasks that run side by side (as many as there are cores)
#   UPGRADE=1             with `make lock`: newest versions, not just those that pyproject.toml forces
#   PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
#                         PyTorch without CUDA, on Linux some 2 GB less to fetch

SHELL := /bin/sh
.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LOCK := requirements.lock
# pip's progress is for a terminal; elsewhere only its warnings and errors show.
QUIET := $(shell test -t 2 || echo --quiet)
TORCH := $(shell sed -n 's/.*"\(torch==[^"]*\)".*/\1/p' pyproject.toml)

# Taken before .venv goes to the front of PATH.
ifndef PYTHON
PYTHON := $(shell command -v python3.11 || command -v python3 || echo python3)
endif

# The stages in dvc.yaml call plain `python`; uv installs into the environment that is active.
export PATH := $(CURDIR)/$(BIN):$(PATH)
export VIRTUAL_ENV := $(CURDIR)/$(VENV)

# Stages are processes of their own; without .pyc files each would compile all libraries anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install repro study params index check test wheel tutorials lint format docs lock hooks clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

install: $(STAMP) ## make .venv with the locked versions (again only when pyproject.toml or the lock change)

# uv downloads and unpacks side by side; `pip install --no-deps --require-hashes -r requirements.lock` installs the same.
# torch comes last, by pip: it takes the build of the index that pip is set up with.
$(STAMP): pyproject.toml $(LOCK)
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { \
	  $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    found="$$($(PYTHON) --version 2>/dev/null || echo 'not to be found')"; \
	    echo "make install: $(PYTHON) is $$found; expected Python 3.11 or later (make install PYTHON=/path/to/python3.11)" >&2; \
	    exit 2; }; \
	  echo "==> $(VENV) with $$($(PYTHON) --version)"; $(PYTHON) -m venv $(VENV); }
	@echo "==> $(LOCK)"
	@sed -n '/^uv==/,/^    #/p' $(LOCK) | $(BIN)/python -m pip install $(QUIET) --require-hashes -r /dev/stdin
	@uv pip install $(QUIET) --no-deps --require-hashes -r $(LOCK)
	@echo "==> $(TORCH)"
	@$(BIN)/python -m pip install $(QUIET) $(TORCH)
	@echo "==> Explearn"
	@uv pip install $(QUIET) --no-deps --no-build-isolation -e .
	@uv pip check $(QUIET)
	@touch $(STAMP)

# On every machine one thread a stage, and the instructions that every x86-64 server has (they cost 2 %): with others, sums
# come in another order, and last digits differ. On processors of another maker they still do.
repro study: export OMP_NUM_THREADS := $(or $(OMP_NUM_THREADS),1)
repro study: export ATEN_CPU_CAPABILITY := $(or $(ATEN_CPU_CAPABILITY),avx2)
repro study: export ONEDNN_MAX_CPU_ISA := $(or $(ONEDNN_MAX_CPU_ISA),AVX2)
# shap's loops take nine seconds to compile in each stage, and are as fast without.
repro study: export NUMBA_DISABLE_JIT := 1
repro: install params.yaml ## run the pipeline, some ten minutes on two cores; the result is reports/report.md
	$(if $(ARGS),dvc repro $(ARGS),python scripts/repro.py $(if $(JOBS),--jobs $(JOBS)))

study: install ## run the study, hours for each of five seeds, and publish it in reports/study (SEEDS=15: only that; PROFILE=study_local: without the hub)
	python scripts/run_study.py $(if $(SEEDS),--seeds $(SEEDS)) $(if $(JOBS),--jobs $(JOBS)) $(if $(PROFILE),--profile $(PROFILE))

params.yaml:
	python scripts/compose_params.py $(ARGS)

params: install ## compose params.yaml from conf/ (ARGS="profile=local" for another profile)
	python scripts/compose_params.py $(ARGS)

index: install ## write what the methods' classes declare: their index and the docs' table
	python scripts/make_index.py

check: install ## lint, and run the quick tests of what differs from main: the loop while working
	ruff check .
	ruff format --check .
	mypy
	@tests="$$(python scripts/changed_tests.py $(ARGS))"; \
	  if [ -n "$$tests" ]; then pytest --numprocesses=auto -m 'not slow' -q $$tests; else echo "no test of what changed"; fi

test: install ## run all tests, a file on each core (ARGS="-k rollout" for some)
	pytest --numprocesses=auto --dist=loadfile --no-loadscope-reorder $(ARGS)

wheel: ## build the wheel, install it into an empty environment, explain with it (ARGS="--newest --folder DIR")
	$(PYTHON) scripts/try_wheel.py $(ARGS)

tutorials: ## run each tutorial in an empty environment (ARGS="auditor --newest --folder DIR" for one)
	$(PYTHON) scripts/try_tutorials.py $(ARGS)

lint: install ## check style, format, types, the direction of imports, and that what is generated is up to date
	ruff check .
	ruff format --check .
	mypy
	lint-imports --no-logo
	python scripts/make_index.py --check
	python scripts/compose_params.py --check
	NO_MKDOCS_2_WARNING=1 mkdocs build --strict --quiet --site-dir=build/site

docs: install ## write the documentation as a site, to site/
	NO_MKDOCS_2_WARNING=1 mkdocs build --strict --quiet
	@echo site/index.html

format: install ## mend what ruff can mend
	ruff check --fix .
	ruff format .

# What only torch's build for CUDA needs.
CUDA := cuda-bindings cuda-toolkit nvidia-cublas nvidia-cudnn-cu13 nvidia-cusparselt-cu13 nvidia-nccl-cu13 \
  nvidia-nvshmem-cu13 triton

# For all systems and Pythons. What is locked already stays, unless pyproject.toml forces another version.
lock: install ## rewrite requirements.lock after a change of dependencies (UPGRADE=1 for newest)
	@printf '%s\n' $(CUDA) | uv pip compile --quiet --universal --python-version=3.11 --extra=dev --generate-hashes \
	  --no-emit-package=torch --excludes=/dev/stdin --custom-compile-command='make lock' \
	  $(if $(UPGRADE),--upgrade) --output-file=$(LOCK) pyproject.toml
	@! grep -E '^(nvidia-|cuda-|triton)' $(LOCK) || { echo "make lock: add the packages above to CUDA in the Makefile" >&2; exit 2; }

hooks: install ## run the linters before each commit (pre-commit)
	pre-commit install

clean: ## remove caches and what killed stages left; .venv, data and reports stay
	rm -rf build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . \( -name .git -o -name .dvc -o -name $(VENV) \) -prune -o \
	  \( -name __pycache__ -o -name '.*.partial-*' \) -prune -exec rm -rf {} +
