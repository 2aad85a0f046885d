# Everything here is thin over `python -m experiments` and `python -m analysis`, which explain themselves with --help.
SHELL := /bin/bash

# What a user gives is data, and reaches the programs by the environment: never as text of make's (so a variable is
# exported as it was written, `value`) or of the shell's (so recipes say "$$BUNDLE", and "$$STEM" for the % of a target).
# Each line of a recipe becomes its program (`exec`), so that a signal to make reaches it.
GIVEN := $(foreach name,$(.VARIABLES),$(if $(findstring command line,$(origin $(name))),$(name)))
$(foreach name,$(GIVEN),$(eval override $(name) := $$(value $(name)))$(eval export $(name)))
%: export STEM = $*
export PYTHON ?= python3
export VENV := .venv
RUN := "$${VENV:?is empty; leave it out}"/bin/python

.DEFAULT_GOAL := help
.PHONY: venv help scenarios compare verify replay gate report bench doctor engine images firmware brokers test host-test check mutate clean lock

help: ## this page
	@echo 'MQTT contention testbed: what sharing a host does to an MQTT control loop, and which knob really helps.'
	@echo
	@sed -nE 's/^([a-z][a-zA-Z0-9%-]*):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | sed 's/%/N/' | expand -t 26
	@echo
	@echo 'Swap anything per run, e.g. make scenario-1 INTERVALS=20 QOS=0,1 DEVICE=none:'
	@sed -nE 's/^    "([A-Z_]+)": Variable\(.*, "(.*)"\),/  \1\t\2/p' experiments/variables.py | expand -t 26

scenario-%: venv ## run scenario N (0 to 8), print its table, leave results/latest
	@exec $(RUN) -m experiments run -- "$$STEM"
	@exec $(RUN) -m analysis summarise results/latest

study-%: venv ## run a study, its arms interleaved: priority, qos, docker, arduino, security, brokers, faults, sessions
	@exec $(RUN) -m experiments study -- "$$STEM"
	@exec $(RUN) -m analysis summarise results/latest

scenarios: venv ## all nine scenarios on one page, results/overview/overview.html (about 30 minutes)
	@exec $(RUN) -m experiments all
	@exec $(RUN) -m analysis overview $$(cat results/scenarios)

path-%: venv ## where the time of scenario N went: a run with a capture at the broker
	@exec $(RUN) -m experiments path -- "$$STEM"
	@exec $(RUN) -m analysis path results/latest

compare: venv ## is B faster than A? A=BUNDLE or A=BUNDLE\#ARM, likewise B
	@if [ -z "$$A" ] || [ -z "$$B" ]; then echo 'testbed: say which: make compare A=BUNDLE B=BUNDLE' >&2; exit 2; fi
	@exec $(RUN) -m analysis compare -- "$$A" "$$B"

verify: venv ## check BUNDLE and derive every table and figure of it again, byte for byte
	@exec $(RUN) -m analysis verify -- "$${BUNDLE:-results/latest}"

replay: venv ## run the plan of BUNDLE again: what differs here, then claim by claim whether it was reproduced
	@original=$$(realpath -- "$${BUNDLE:-results/latest}") && $(RUN) -m experiments replay -- "$$original" && \
	  $(RUN) -m analysis summarise results/latest >/dev/null && \
	  $(RUN) -m analysis reproduced -- "$$original" results/latest

gate: venv ## did it get slower? BASELINE=BUNDLE again here, with BROKER=… or BROKER_IMAGE=… in its place; for a CI
	@if [ -z "$$BASELINE" ]; then echo 'testbed: say which: make gate BASELINE=BUNDLE' >&2; exit 2; fi
	@exec $(RUN) -m experiments gate -- "$$BASELINE"

report: venv ## derive tables and figures of BUNDLE (default: the latest) again
	@exec $(RUN) -m analysis report -- "$${BUNDLE:-results/latest}"

bench: venv ## the instrument beside its floor: TCP echo, scenario 0, lateness, CPU (3 minutes)
	@exec $(RUN) -m experiments bench

doctor: venv ## what this host can and cannot do, with the remedy for each miss
	@exec $(RUN) -m experiments doctor

engine: ## install and start Docker Engine, Compose and Buildx (Debian and Ubuntu, as root)
	@bash compose/host/engine.sh

images: venv ## pull or build every image and write .env, for `docker compose` by hand
	@$(RUN) -m experiments images

firmware: venv ## sketch and simulated board into firmware/build, for PLACEMENT=host DEVICE=simavr
	@if command -v avr-gcc >/dev/null; then $(MAKE) -C firmware; else $(RUN) -m experiments firmware; fi

brokers: venv ## the brokers' programs into build/brokers, for PLACEMENT=host BROKER=…; needs an engine once
	@exec $(RUN) -m experiments export-brokers

# Tests that only compute: a worker a CPU. All others start brokers, boards or containers and take their time.
COMPUTING = tests/analysis tests/schema tests/test_older_bundles.py tests/test_two_hosts.py

test: venv ## every test this host can run; REQUIRE_ENGINE=1 fails where there is no engine
	@$(RUN) -m pytest -n auto --dist loadscope $(COMPUTING); computed=$$?; \
	$(RUN) -m pytest $(COMPUTING:%=--ignore=%) && exit $$computed

host-test: venv ## everything on another host, in QEMU, as root: HOST=debian13 (an hour; QUICK=1: minutes; docs/hosts.md)
	@PYTHONPATH=tests:. $(RUN) -m hosts

# Modules of tests are found by their folder, as pytest does: two folders may hold a conftest.py each.
TEST_FOLDERS = $(filter-out tests/hosts/,$(sort $(dir $(wildcard tests/*.py tests/*/*.py))))

check: venv ## what a reviewer's machine checks: format, lint, types
	@"$$VENV"/bin/ruff format --check . && "$$VENV"/bin/ruff check . && "$$VENV"/bin/mypy && \
	for folder in $(TEST_FOLDERS); do \
	  MYPYPATH="tests:$$folder" "$$VENV"/bin/mypy --no-error-summary --allow-untyped-calls --implicit-reexport \
	    "$$folder"*.py || exit; done

mutate: venv ## whether the tests notice changes to what measures, proves and judges (half an hour; docs/tests.md)
	@"$$VENV"/bin/mutmut run && exec "$$VENV"/bin/mutmut results

clean: venv ## remove what a killed run left behind (bundles stay)
	@exec $(RUN) -m experiments clean

lock: venv ## pin every Python dependency anew, with hashes
	@for target in "pyproject.toml --extra amqtt -o requirements.lock" \
	    "pyproject.toml --extra dev --extra amqtt -o requirements-dev.lock" \
	    "clients/requirements.in -c requirements.lock -o clients/requirements.lock" \
	    "rpi/requirements.in -c requirements.lock -o rpi/requirements.lock" \
	    "experiments/brokers/amqtt/requirements.in -c requirements.lock -o experiments/brokers/amqtt/requirements.lock"; do \
	  "$$VENV"/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	    --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' $$target; done

venv:
	@[ requirements-dev.lock -nt "$${VENV:?is empty; leave it out}"/.ready ] || exit 0; \
	command -v -- "$$PYTHON" >/dev/null && "$$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'testbed: Python 3.11 or newer is needed; say which with PYTHON=…' >&2; exit 2; }; \
	printf 'testbed: installing Python packages into %q\n' "$$VENV"; \
	"$$PYTHON" -m venv -- "$$VENV" && \
	  "$$VENV"/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock && \
	  touch -- "$$VENV"/.ready
