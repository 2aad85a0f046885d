# Everything here is thin over `python -m experiments` and `python -m analysis`, which explain themselves with --help.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python

.DEFAULT_GOAL := help
.PHONY: help scenarios-list clean check test engine doctor bench lock firmware

help: ## this page
	@echo 'MQTT contention testbed: what sharing a host does to an MQTT control loop, and which knob really helps.'
	@echo
	@sed -nE 's/^([a-z][a-zA-Z0-9%-]*):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | sed 's/%/N/' | expand -t 26
	@echo
	@echo 'Swap anything per run, e.g. make scenario-1 INTERVALS=20 QOS=0,1 DEVICE=none:'
	@sed -nE 's/^    "([A-Z_]+)": Variable\(.*, "(.*)"\),/  \1\t\2/p' experiments/variables.py | expand -t 26

scenario-%: $(VENV)/.ready ## run scenario N (0 to 8), print its table, leave results/latest
	@$(RUN) -m experiments run $* && $(RUN) -m analysis summarise results/latest

engine: ## install and start Docker Engine, Compose and Buildx (Debian and Ubuntu, as root)
	@bash compose/host/engine.sh

clean: $(VENV)/.ready ## remove what a killed run left behind (bundles stay)
	@$(RUN) -m experiments clean

$(VENV)/.ready: requirements-dev.lock
	@command -v $(PYTHON) >/dev/null && $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'testbed: Python 3.11 or newer is needed; say which with PYTHON=…' >&2; exit 2; }
	@echo 'testbed: installing Python packages into $(VENV)'
	@$(PYTHON) -m venv $(VENV) && $(VENV)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@
