# `make demo` and `make test` are all a fresh clone needs: they create .venv and install into it.
PYTHON ?= python3.11
VENV   ?= .venv
BIN    := $(VENV)/bin
BENCHMARKS := attention analysis rollout flow longformer methods alti integrated_gradients occlusion owen classes relevance decoders length cores waiting side_by_side short_texts similarity faithfulness evaluation lab corpus

.DEFAULT_GOAL := help
.PHONY: help install locked lock fuzz demo test test-fast coverage lint types contract check bench docs site builtin web web-check wheel-check clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 12

# The stamp makes every other target install once, and again when the dependencies change.
$(VENV)/.installed: pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 is needed (set PYTHON=/path/to/python)."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	@# torch first and alone: a later resolver step must find it already there.
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

install: $(VENV)/.installed ## Create .venv and install everything

locked: ## Create .venv with the archives of requirements.lock, each compared with its hash (Linux x86-64, Python 3.11)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --require-hashes --no-deps --requirement requirements.lock
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $(VENV)/.installed

lock: install ## Pin what is installed: constraints.txt, requirements.lock, docs/licences.md (needs the package registry)
	$(BIN)/python -m tools.dependencies

demo: install ## Explain the built-in document with the built-in model, write a page
	$(BIN)/sightline demo

test: install ## Run all tests
	@# loadfile: the tests of a file share its fixtures, which two processes would otherwise both build.
	$(BIN)/python -m pytest -n 2 --dist loadfile -rs

test-fast: install ## Run the fast tests (no browser, server or sub-process; three model families)
	@# loadfile: the tests of a file share its fixtures, which two processes would otherwise both build.
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow and not browser"

coverage: install ## Run all tests and report line and branch coverage per file
	$(BIN)/python -m pytest -n 2 --cov=sightline --cov=sightline_studies --cov-branch --cov-report=term:skip-covered

fuzz: install ## Attack everything that reads foreign files or texts, thousands of times (about an hour)
	$(BIN)/python -m tests.fuzz

lint: install ## Check style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install ## Check types
	$(BIN)/mypy

contract: install ## Check that every package imports only from packages to its left
	$(BIN)/lint-imports

check: lint types contract test ## Everything CI checks

bench: install ## Run all benchmarks, quickly
	for name in $(BENCHMARKS); do $(BIN)/python -m benchmarks.$$name --quick || exit 1; done

docs: install ## Write the generated pages of docs/
	$(BIN)/python -m tools.docs

site: install ## Build the documentation site into build/site, with the gallery
	$(BIN)/python -m tools.gallery
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

builtin: install ## Rebuild corpus, vocabulary, model and card of the built-in model (needs the package registry)
	$(BIN)/python -m tools.builtin_model --seed 0

web: ## Check, test and build the view of report, notebook and server (needs Node 20)
	cd web && npm ci && npm run typecheck && npm run test && npm run build

web-check: web ## Check that the built view in the package matches web/
	git diff --exit-code -- src/sightline/view/static src/sightline/serve/static

wheel-check: install ## Build the wheel, check its files, install it without extras into an empty environment and explain a text there
	$(BIN)/python -m tools.wheel

clean: ## Remove generated files
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist build
