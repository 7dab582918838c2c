# Everything that a fresh machine needs beyond Python 3.11+ and git is brought into this directory.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo test pure tools conformance reference picture lint check clean

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo $$p; break; }; done)
UV := .tools/uv/bin/uv
RUN := .venv/bin/python
export UV_PYTHON_DOWNLOADS := never
# What the machine trusts, companies' own authorities included. The name of the switch depends on the version.
export UV_SYSTEM_CERTS := true
export UV_NATIVE_TLS := true
export NODE_USE_SYSTEM_CA := 1
WORKERS ?= 2

help: ## Say what can be made
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 22

$(UV):
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 or newer found" >&2; exit 1; }
	$(PYTHON) -m venv .tools/uv
	.tools/uv/bin/pip install --quiet --disable-pip-version-check 'uv>=0.9,<1'

SPEEDUPS := hatch_build.py $(wildcard */_speedups*.[ch] */*/_speedups*.[ch])

.venv/.synced: pyproject.toml uv.lock $(SPEEDUPS) | $(UV)
	$(UV) sync --quiet --locked --all-extras --python $(PYTHON)
	@touch $@

demo: .venv/.synced ## A gateway, three real peers and an agent that makes about twenty calls
	.venv/bin/tieline demo

test: tools ## Run all tests
	$(RUN) -m pytest -n $(WORKERS) -q

pure: tools ## Run the tests of what is in C with the Python that stands beside it
	TIELINE_PURE_PYTHON=1 $(RUN) -m pytest -n $(WORKERS) -q tests/recordings tests/transports tests/gateway/protocol \
		tests/gateway/calls tests/gateway/telemetry tests/gateway/replay tests/gateway/runtime tests/loadtest/test_hotpath.py

tools: .venv/.synced ## Bring the Node programs and database servers that tests talk to
	@$(RUN) -m tests.tooling

conformance: tools ## Score against the official MCP conformance suite and print the table
	$(RUN) -m tests.conformance.harness

reference: .venv/.synced ## Write the reference pages from the code
	$(RUN) -m tests.reference_pages

picture: .venv/.synced ## Draw the pictures of the documents anew from real runs
	$(RUN) -m tests.picture

lint: .venv/.synced ## Format, lint, types and import contracts
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/pyright
	.venv/bin/lint-imports

check: lint test ## What has to be green before a change is merged

clean: ## Remove what was brought here
	rm -rf .venv .tools .pytest_cache .ruff_cache .hypothesis .import_linter_cache tests/node/node_modules
