# SPDX-License-Identifier: Apache-2.0
"""A fault is injected when it is due, proved, and put back whatever ends the repetition."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from experiments import contentions, faults
from experiments.boards.none import NoBoard
from experiments.errors import RefusedError
from experiments.families.control.conditions import ControlConditions
from experiments.faults import Life, Tasks
from experiments.injection import Injection
from experiments.runner import _Watch
from experiments.witness import Witness


class ScriptedStand:
    """Does what a stand would, as a script of what the kernel, the engine and the Pi show."""

    def __init__(self) -> None:
        self.lives = {name: [Life(100, "a", None)] for name in ("broker", "pi", "board")}
        self.signals: list[tuple[str, int]] = []
        self.obeys = True
        self.states = "SS"
        self.ran_ns = 0
        self.counts = {"boots": 0, "garbage_lines": 0, "plugged": 1, "unplugged": 0}
        self.up = True
        self.free = 4096

    def signal(self, service: str, number: int) -> None:
        self.signals.append((service, number))
        if not self.obeys:
            return
        if number in {signal.SIGKILL, signal.SIGTERM}:
            status = 0 if number == signal.SIGTERM else 128 + number
            self.lives[service].append(replace(self.life(service), exit_status=status))
        elif number == signal.SIGSTOP:
            self.states = "TT"
        elif number == signal.SIGCONT:
            self.states, self.ran_ns = "SS", self.ran_ns + 14
        elif number == signal.SIGHUP:
            self.counts["boots"] += 1
        elif number == signal.SIGUSR2:
            self.counts["garbage_lines"] += 9

    def life(self, service: str) -> Life:
        return self.lives[service][-1]

    def revive(self, service: str) -> None:
        pid = self.life(service).pid + 1
        self.lives[service].append(Life(pid, f"life {pid}", None))
        if service == "board":
            self.counts["unplugged"] += 1
            self.counts["plugged"] += 1

    def tasks(self, service: str) -> Tasks:
        del service
        return Tasks(self.states, self.ran_ns)

    def board_counts(self) -> dict[str, int]:
        return dict(self.counts)

    def link(self, do: str) -> bool:
        if self.obeys and do != "read":
            self.up = do == "mend"
        return self.up

    def disk(self, do: str) -> int:
        if self.obeys and do != "read":
            self.free = 0 if do == "fill" else 4096
        return self.free


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> ScriptedStand:
    monkeypatch.setattr(faults, "PATIENCE_S", 0.05)
    return ScriptedStand()


Inject = Callable[..., Injection]


@pytest.fixture
def inject(stand: ScriptedStand) -> Inject:
    """Begin an injection whose fault is due at once."""

    def begin(value: str, delay_ms: int = 0, restore: Callable[[], None] = lambda: None) -> Injection:
        fault = faults.parse(value)
        assert fault is not None
        injection = Injection(fault, stand, delay_ms, restore)
        injection.begin(time.monotonic_ns())
        return injection

    return begin


def over(injection: Injection) -> dict[str, Any]:
    """Its record, once its time is up."""
    thread = injection._thread
    assert thread is not None
    thread.join(10)
    assert not thread.is_alive()
    injection.end()
    return injection.done.record()


BY_ITSELF = [value for value in faults.examples() if not value.startswith(("clock:", "disk:"))]


@pytest.mark.parametrize("value", BY_ITSELF)
def test_every_kind_proves_itself_and_puts_everything_back(stand: ScriptedStand, inject: Inject, value: str) -> None:
    injection = inject(value.replace("2s", "20ms").replace("1s", "20ms"))
    done = over(injection)
    assert injection.done.problems() == []
    assert done["evidence"]
    assert all(each["holds"] for each in done["evidence"])
    assert done["requested_at_ns"] <= done["injected_ns"] <= done["in_force_ns"] <= done["ended_ns"]
    lasts_ns = 20_000_000 if value.endswith("s") else 0
    assert done["ended_ns"] - done["in_force_ns"] >= lasts_ns
    assert stand.states == "SS"
    assert stand.up
    assert all(lives[-1].exit_status is None for lives in stand.lives.values())


@pytest.mark.parametrize("value", BY_ITSELF)
def test_a_fault_that_does_not_take_place_is_no_fault(stand: ScriptedStand, inject: Inject, value: str) -> None:
    stand.obeys = False
    injection = inject(value.replace("2s", "20ms").replace("1s", "20ms"))
    over(injection)
    problems = injection.done.problems()
    assert problems
    for line in problems:
        assert line.startswith("FAULT=")
        assert "; " in line, "a remedy"


@pytest.mark.parametrize("value", ["broker:kill", "pi:restart"])
def test_a_service_that_does_not_end_is_said_so(stand: ScriptedStand, inject: Inject, value: str) -> None:
    stand.obeys = False
    injection = inject(value)
    over(injection)
    (line,) = injection.done.problems()
    assert "did not end though it was told to" in line


def test_a_kill_gives_the_new_process_its_knobs_again(inject: Inject) -> None:
    restored: list[bool] = []
    over(inject("broker:kill", restore=lambda: restored.append(True)))
    over(inject("broker:freeze:1ms", restore=lambda: restored.append(False)))
    assert restored == [True]


def test_a_knob_that_cannot_be_given_again_refuses_the_repetition(inject: Inject) -> None:
    def refuse() -> None:
        raise RefusedError("broker=fifo:90: Operation not permitted")

    injection = inject("broker:kill", restore=refuse)
    over(injection)
    assert injection.done.problems()[0].startswith("FAULT=broker:kill: broker=fifo:90: Operation not permitted; ")


def test_a_full_disk_stays_full_until_the_repetition_ends(stand: ScriptedStand, inject: Inject) -> None:
    injection = inject("disk:full")
    while injection.done.in_force_ns is None:
        time.sleep(0.001)
    assert stand.free == 0
    injection.end()
    assert stand.free == 4096
    assert injection.done.problems() == []


def test_a_repetition_that_is_interrupted_leaves_nothing_frozen(stand: ScriptedStand, inject: Inject) -> None:
    injection = inject("broker:freeze:7200s")
    while injection.done.in_force_ns is None:
        time.sleep(0.001)
    assert stand.states == "TT"
    injection.end()
    assert stand.states == "SS"
    injection.end()


def test_a_repetition_that_ends_before_its_fault_is_refused(stand: ScriptedStand, inject: Inject) -> None:
    injection = inject("broker:kill", delay_ms=3_600_000)
    injection.end()
    assert stand.signals == []
    (line,) = injection.done.problems()
    assert line.startswith("FAULT=broker:kill: the repetition ended before it was due; ")


def watched(fault: str, contention: str, *, in_force: bool) -> tuple[_Watch, ControlConditions]:
    conditions = ControlConditions(NoBoard(), contention=contentions.parse(contention), fault=faults.parse(fault))
    assert conditions.fault is not None
    injection = Injection(conditions.fault, ScriptedStand(), 0, lambda: None)
    injection.done.in_force_ns = 1 if in_force else None
    return _Watch(cast(Witness, None), injection), conditions


@pytest.mark.parametrize(
    ("fault", "contention", "in_force", "excused"),
    [
        ("broker:kill", "flood", True, True),
        ("broker:kill", "flood", False, False),
        ("broker:kill", "cpu", True, False),
        ("pi:kill", "flood", True, False),
    ],
)
def test_a_flood_is_excused_by_the_broker_that_failed_under_it_and_by_nothing_else(
    fault: str, contention: str, in_force: bool, excused: bool
) -> None:
    watch, conditions = watched(fault, contention, in_force=in_force)
    fell_short = ["the broker dropped 200 clients of the flood"]
    assert watch.excused(fell_short, conditions) == ([] if excused else fell_short)
    assert watch.in_force() == in_force
