# Targets are thin: what they do is in the program that they start.
UV ?= uv
PYTHON := .venv/bin/python

.PHONY: tools conformance

tools: ## Install the Node programs that the tests talk to
	$(UV) sync --quiet --all-extras
	$(PYTHON) -m tests.tooling

conformance: ## Run the official conformance suite through the gateway; ARGS="--only stdio --verbose"
	$(PYTHON) -m tests.conformance.harness $(ARGS)
