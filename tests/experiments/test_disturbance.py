# SPDX-License-Identifier: Apache-2.0
"""What begins and ends a contention around a repetition, over a channel that a test plays."""

from __future__ import annotations

import pytest
from scripted import Flooder
from virtual import Clock

from experiments import contentions, disturbance
from experiments.contentions import Contention
from experiments.disturbance import Disturbance, capacity
from experiments.errors import StandError
from experiments.placements import Stand

RUN = "0123abcd"


class OneService(Stand):
    """A stand of which only what disturbs is there."""

    name = "host"
    containers = False
    roles = ()

    def __init__(self, flooder: Flooder) -> None:
        super().__init__()
        self._channels = {"flooder": flooder}
        self.steps: list[str] = []

    def restart(self, service: str) -> None:
        self.steps.append(f"restart {service}")

    def refresh(self) -> None:
        self.steps.append("refresh")


@pytest.fixture
def flooder() -> Flooder:
    return Flooder()


@pytest.fixture
def stand(flooder: Flooder) -> OneService:
    return OneService(flooder)


def contention(name: str, level: str = "") -> Contention:
    found = contentions.parse(f"{name}:{level}" if level else name)
    assert found is not None
    return found


def test_without_a_contention_nothing_is_asked_of_anybody(stand: OneService, flooder: Flooder) -> None:
    disturbing = Disturbance(stand, None, RUN, None)
    disturbing.begin()
    assert disturbing.end() == {}
    assert (disturbing.job, flooder.heard, stand.steps) == (None, [], [])


def test_a_stressor_runs_all_the_time_and_needs_no_job(stand: OneService, flooder: Flooder) -> None:
    disturbing = Disturbance(stand, contention("cpu"), RUN, None)
    disturbing.begin()
    assert disturbing.end() == {}
    assert (disturbing.job, flooder.heard, stand.steps) == (None, [], [])


def test_a_flood_gets_its_job_is_waited_for_and_stopped_and_gives_its_own_account(
    stand: OneService, flooder: Flooder
) -> None:
    disturbing = Disturbance(stand, contention("flood", "50%"), RUN, 1000.0)
    flooder.before = [{"event": "connected"}]
    flooder.accounts = [{"published": 3}]
    disturbing.begin()
    assert disturbing.end() == {"published": 3}
    assert flooder.heard == [disturbing.job, "stop"]
    assert disturbing.job is not None
    assert (disturbing.job["run"], disturbing.job["rate"]) == (RUN, 500.0)
    assert stand.steps == []


def test_a_flood_has_ninety_seconds_to_begin_and_a_minute_to_end(
    stand: OneService, flooder: Flooder, monkeypatch: pytest.MonkeyPatch
) -> None:
    Clock().governs(monkeypatch, "experiments.disturbance")
    disturbing = Disturbance(stand, contention("flood", "saturate"), RUN, None)
    disturbing.begin()
    disturbing.end()
    assert flooder.waited_s == [90.0, 60.0]


def test_a_contention_that_ends_by_itself_is_started_anew(stand: OneService) -> None:
    once = contention("mqtt-stresser")
    assert once.once
    Disturbance(stand, once, RUN, None).begin()
    assert stand.steps == ["restart flooder"]


def test_a_flood_that_fails_says_why(stand: OneService, flooder: Flooder) -> None:
    flooder.before = [{"event": "failed", "reason": "no broker"}]
    with pytest.raises(StandError, match="the contention did not run: no broker"):
        Disturbance(stand, contention("flood", "saturate"), RUN, None).begin()


def test_a_flooder_that_ended_is_no_contention(stand: OneService, flooder: Flooder) -> None:
    flooder._events.put(None)
    with pytest.raises(StandError, match="flooder ended unexpectedly"):
        Disturbance(stand, contention("flood", "saturate"), RUN, None).begin()


def test_what_a_broker_takes_is_the_median_of_three_saturations_each_on_a_fresh_one(
    stand: OneService, flooder: Flooder, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock().governs(monkeypatch, "experiments.disturbance")
    began_ns = clock.now_ns
    flooder.accounts = [{"delivered": count, "elapsed_s": 2.0} for count in (9000, 1000, 3001)]
    assert capacity(stand, contention("flood", "50%"), RUN) == 1500.5
    assert stand.steps == ["refresh"] * 3
    assert [each for each in flooder.heard if each != "stop"] == [contention("flood", "saturate").job(RUN, None)] * 3
    assert clock.now_ns - began_ns == 3 * disturbance._CAPACITY_S * 1e9
