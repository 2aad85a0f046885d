# SPDX-License-Identifier: Apache-2.0
"""What every test may ask for, and what becomes of those that need a container engine."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from stand import Program, Responder, Runner, RunningBroker, Script, ScriptedPort

from experiments import engine
from experiments.variables import IMAGES

# A shell without job control starts what it puts in the background with SIGINT ignored, and every child inherits that;
# a handler of our own is reset to the default in them.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which nohup leaves ignored

# The same examples each time, however slow the host.
settings.register_profile(
    "reproducible", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("reproducible")

_SKIPPED = pytest.StashKey[int]()


@functools.cache
def lacking_engine() -> str | None:
    lack = engine.lacking()
    return lack.reason if lack else None


@pytest.fixture(autouse=True)
def _images_of_its_own() -> Iterator[None]:
    """A command leaves the images that it was told in its environment, for Compose: they are not the next test's."""
    before = {name: os.environ.get(name) for name in IMAGES}
    yield
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_SKIPPED] = 0


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("engine") and (lacking := lacking_engine()):
        if os.environ.get("REQUIRE_ENGINE") == "1":
            pytest.fail(f"REQUIRE_ENGINE=1, but {lacking}", pytrace=False)
        item.config.stash[_SKIPPED] += 1
        pytest.skip(lacking)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if skipped := config.stash[_SKIPPED]:
        terminalreporter.section("NOT TESTED ON REAL CONTAINERS", yellow=True, bold=True)
        terminalreporter.line(
            f"{skipped} tests were skipped, because {lacking_engine()}. `make engine` installs one; "
            "REQUIRE_ENGINE=1 makes them fail instead.",
            yellow=True,
        )


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    """The broker of placement `host`, on a port of its own."""
    running = RunningBroker(tmp_path)
    yield running
    running.kill()


@pytest.fixture
def respond(broker: RunningBroker) -> Iterator[Callable[[Script], Responder]]:
    """Put a script in the Pi's place."""
    started: list[Responder] = []

    def start(script: Script) -> Responder:
        started.append(Responder(broker.port, script))
        return started[-1]

    yield start
    for responder in started:
        responder.stop()


@pytest.fixture
def program() -> Iterator[Callable[..., Program]]:
    """Start one of our programs: `python -m` with these arguments."""
    started: list[Program] = []

    def start(*arguments: str, events: str = "stdout") -> Program:
        started.append(Program(*arguments, events=events))
        return started[-1]

    yield start
    for running in started:
        running.stop()


@pytest.fixture
def port(tmp_path: Path) -> ScriptedPort:
    """A serial port whose board is the test."""
    return ScriptedPort(tmp_path / "tty")


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    """The command line, in an empty folder."""
    started = Runner(tmp_path)
    yield started
    started.stop()
