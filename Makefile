# What people do with this repository; `make help` lists it.

AGENT  ?= log-digest
ifeq ($(AGENT),log-digest)
PROMPT ?= graphs/agents/log-digest/sample/postgresql.log
endif
PROMPT ?=
export AGENT PROMPT
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup run test quick check deploy-check chaos soak compat real-model docs site lock sbom clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

$(READY): pyproject.toml requirements.lock scripts/setup
	@scripts/setup $(VENV)
	@touch $@

setup: $(READY) ## install everything into .venv, with hashes checked

run: $(READY) ## run an agent on the embedded engine: AGENT=… PROMPT=… ARGS='--var … --answer …'
	@scripts/run $(ARGS)

test: $(READY) ## run the whole test suite
	@scripts/test

quick: $(READY) ## the checks and the fast tests, in less than two minutes
	@scripts/quick

check: $(READY) ## lint, types, import directions
	@scripts/check

chaos: $(READY) ## the long fault tests
	@scripts/chaos

deploy-check: $(READY) ## the files of deploy/, without Docker or a cluster
	@scripts/deploy-check

soak: $(READY) ## load and rolling restarts for SOAK_MINUTES (30)
	@scripts/soak

compat: $(READY) ## the tests of the store on every Redis and Valkey that can be had
	@scripts/compat

real-model: $(READY) ## a small real model classifies messages; needs no key
	@scripts/real-model

docs: $(READY) ## renew the generated parts of docs/ and of docstrings
	@scripts/docs

site: $(READY) ## the manual as HTML in build/site
	@scripts/site

lock: $(READY) ## renew requirements.lock from pyproject.toml
	@scripts/lock

sbom: $(READY) ## what an installation consists of, as sleipnir/sbom.cdx.json
	@scripts/sbom

clean: ## remove .venv and caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .npm
