# SPDX-License-Identifier: Apache-2.0
"""One repetition seen from outside, over a channel that a test plays."""

from __future__ import annotations

import json
from typing import Any

import pytest
from virtual import Clock

from clients.schedule import Job
from experiments.errors import RefusedError, StandError
from experiments.observation import READY_TIMEOUT_S, Rows, observe
from experiments.placements import Channel

JOB = Job(
    run="0123abcd", repetition=1, interval_ms=20, messages=490, warmup=10, qos=1, qos_answer=2, timeout_ms=500
)  # fmt: skip
READY = {"event": "ready", "granted_qos": 2, "protection": {"pi": None}}
DONE = {"event": "done", "complete": True}
ANSWERED = [0, 100, 1_000_000, 6_500_999, 4300, "ok", "none", False]
SILENT = [1, 100, 2_000_000, None, None, None, None, False]
UNSENT = [2, 100, None, None, None, None, None, False]


class ControlLoop(Channel):
    """Says what a test told it to say, each event after so many seconds."""

    def __init__(self, clock: Clock, *events: dict[str, Any]) -> None:
        super().__init__("control-loop")
        self._clock, self._said = clock, list(events)
        self.heard: list[Any] = []
        self.waited_s: list[float] = []

    def write(self, data: bytes) -> None:
        self.heard.append(json.loads(data))

    def receive(self, timeout_s: float) -> dict[str, Any]:
        self.waited_s.append(timeout_s)
        self._clock.sleep(1.0)
        return self._said.pop(0)


class Watch:
    """Notes when it was told what."""

    def __init__(self, loop: ControlLoop) -> None:
        self._loop = loop
        self.told: list[tuple[str, int]] = []

    def begin(self) -> None:
        self.told.append(("begin", len(self._loop.waited_s)))

    def end(self) -> None:
        self.told.append(("end", len(self._loop.waited_s)))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock().governs(monkeypatch, "experiments.observation")


def samples(*rows: list[Any]) -> dict[str, Any]:
    return {"event": "samples", "rows": list(rows)}


def test_the_job_goes_to_the_control_loop_and_its_rows_and_its_account_come_back(clock: Clock) -> None:
    loop = ControlLoop(clock, {"event": "waiting"}, READY, samples(ANSWERED, SILENT), samples(UNSENT), DONE)
    rows: Rows = []
    heard: list[list[int]] = []
    watch = Watch(loop)
    done = observe(loop, JOB, rows, heard.append, watch)
    assert [Job(**job) for job in loop.heard] == [JOB]
    assert rows == [ANSWERED, SILENT, UNSENT]
    assert heard == [[5500], []]
    assert done == DONE | {"granted_qos": 2, "protection": {"pi": None}}
    # It began once the stand answered, before the first cycle, and ended after the last.
    assert watch.told == [("begin", 2), ("end", 5)]


def test_it_waits_for_the_schedule_twice_the_timeout_and_half_a_minute(clock: Clock) -> None:
    assert JOB.scheduled_s() == 10.0
    loop = ControlLoop(clock, READY, samples(), samples(), DONE)
    observe(loop, JOB, [], lambda _: None)
    assert loop.waited_s == [READY_TIMEOUT_S, 41.0, 40.0, 39.0]


def test_a_control_loop_that_tells_on_past_its_time_is_given_a_second_each(clock: Clock) -> None:
    loop = ControlLoop(clock, READY, *[samples()] * 42, DONE)
    observe(loop, JOB, [], lambda _: None)
    assert loop.waited_s[-3:] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("said", "error", "reason"),
    [
        ([{"event": "refused", "reason": "grants QoS 0"}], RefusedError, "grants QoS 0"),
        ([{"event": "failed", "reason": "no broker"}], StandError, "no broker"),
        ([READY, {"event": "failed", "reason": "the broker went"}], StandError, "the broker went"),
        ([READY, {"event": "waiting"}], StandError, "unexpected event waiting"),
    ],
)
def test_what_goes_wrong_is_said_as_the_control_loop_says_it(
    clock: Clock, said: list[dict[str, Any]], error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=f"^{reason}$"):
        observe(ControlLoop(clock, *said), JOB, [], lambda _: None)


def test_rows_told_before_the_control_loop_died_are_kept(clock: Clock) -> None:
    rows: Rows = []
    loop = ControlLoop(clock, READY, samples(ANSWERED), {"event": "failed", "reason": "gone"})
    with pytest.raises(StandError):
        observe(loop, JOB, rows, lambda _: None)
    assert rows == [ANSWERED]
