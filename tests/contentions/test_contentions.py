# SPDX-License-Identifier: Apache-2.0
"""What disturbs: its levels, what each is asked to do, and when it fell short of that and refuses the repetition."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clients.flood import duration_s
from clients.flood_job import FloodJob
from experiments import contentions
from experiments.contentions import Achieved, Contention, Second
from experiments.contentions.mqtt_stresser import MqttStresser
from experiments.contentions.stress import HALF
from experiments.errors import BadInputError

RUN = "0123abcd"
LEVELS = {"flood": ["published", "saturate", "1%", "50%", "100%"]}
BAD_LEVELS = ["0%", "101%", "50", "%", "-5%", "5.5%", "hard", "published "]


def contention(name: str, level: str = "") -> Contention:
    found = contentions.parse(f"{name}:{level}" if level else name)
    assert found is not None
    return found


def job(level: str, capacity: float | None = None, kind: str = "flood") -> dict[str, Any]:
    asked = contention(kind, level).job(RUN, capacity)
    assert asked is not None
    FloodJob(**json.loads(json.dumps(asked)))  # the flooder takes it
    return asked


@pytest.mark.parametrize("kind", sorted(contentions.REGISTRY.all()))
def test_every_kind_is_read_and_says_its_name_and_level(kind: str) -> None:
    for level in LEVELS.get(kind, [""]):
        assert str(contention(kind, level)) == (f"{kind}:{level}" if level else kind)


def test_the_kinds_are_those_of_the_help() -> None:
    assert set(contentions.REGISTRY.all()) == {"cpu", "flood", "io", "memory", "mqtt-stresser", "slow-consumer"}
    assert contentions.parse("none") is None


def test_an_unknown_contention_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        BadInputError, match="CONTENTION=earthquake: allowed are none, cpu, flood, io, memory"
    ) as caught:
        contentions.parse("earthquake")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("level", BAD_LEVELS)
def test_a_bad_level_is_refused_with_those_there_are(level: str) -> None:
    with pytest.raises(
        BadInputError, match="allowed are published, saturate, mqtt-stresser, or a percentage such as 50%"
    ) as caught:
        contentions.parse(f"flood:{level}")
    assert str(caught.value).startswith(f"FLOOD={level}: ")


def test_the_published_flood_has_the_thesis_options() -> None:
    words = MqttStresser().arguments()
    thesis = dict(zip(words[::2], words[1::2], strict=True))
    asked = job("published")
    assert (asked["clients"], asked["messages"], asked["rampup_size"]) == tuple(
        int(thesis[option]) for option in ("-num-clients", "-num-messages", "-rampup-size")
    )
    assert (asked["rampup_delay_s"], asked["timeout_s"]) == tuple(
        duration_s(thesis[option]) for option in ("-rampup-delay", "-timeout")
    )
    # Begun anew until the repetition ends, which the thesis' limit of one flood must not cut short.
    assert asked["repeat"]
    assert asked["global_timeout_s"] >= duration_s(thesis["-global-timeout"])
    assert (asked["clients"], asked["messages"]) == (100, 10), "as the thesis' chapter 5 has it"
    assert not {"rate", "saturate"} & asked.keys()


def test_the_stress_has_the_thesis_arguments_but_no_end_of_its_own() -> None:
    words = contention("cpu").arguments()
    assert " ".join(words) == "--cpu 3 --io 3 --vm 5 --vm-bytes 128M"
    assert not any("--timeout" in contention(kind).arguments() for kind in ("cpu", "memory", "io"))


@pytest.mark.parametrize(("level", "rate"), [("25%", 1000.0), ("50%", 2000.0), ("90%", 3600.0), ("100%", 4000.0)])
def test_a_percentage_is_of_what_the_broker_takes(level: str, rate: float) -> None:
    assert contention("flood", level).needs_capacity()
    assert job(level, 4000.0)["rate"] == rate
    with pytest.raises(AssertionError):
        contention("flood", level).job(RUN, None)


@pytest.mark.parametrize("level", ["published", "saturate"])
def test_the_other_levels_need_no_capacity_and_ignore_one(level: str) -> None:
    assert not contention("flood", level).needs_capacity()
    assert job(level, None) == job(level, 4000.0)
    assert "rate" not in job(level)


def test_slow_consumers_have_a_job_of_their_own() -> None:
    assert job("", kind="slow-consumer")["slow_consumers"] > 0
    assert not contention("slow-consumer").needs_capacity()


CPU_BUSY = Achieved(cpu_s=3.9, free_cpu_s=4.0, processes=12, account={})
FLOODED: dict[str, Any] = {"sent": 2000, "delivered": 1990, "elapsed_s": 1.0, "failed_connects": 0, "disconnects": 0}


def flooded(**changes: Any) -> Achieved:
    return Achieved(1.0, 4.0, 1, FLOODED | changes)


def stressed(processes: int, cpu_s: float = 3.9) -> Achieved:
    return Achieved(cpu_s, 4.0, processes, {})


IN_FULL: list[tuple[str, str, Achieved]] = [
    ("cpu", "", stressed(12)), ("cpu", "", stressed(12, 2.0)), ("memory", "", stressed(5)), ("io", "", stressed(7)),
    ("io", "", stressed(7, 0.0)), ("flood", "50%", flooded()), ("flood", "50%", flooded(sent=1600)),
    ("flood", "published", flooded(sent=1)), ("flood", "saturate", flooded(sent=1)),
    ("flood", "published", flooded(stalled_s=0.09)),
    ("slow-consumer", "", flooded(sent=500)), ("mqtt-stresser", "", stressed(4)),
]  # fmt: skip
SHORT: list[tuple[str, str, Achieved, str]] = [
    ("cpu", "", stressed(11), "stress runs 10 of 11 workers; is there memory for them?"),
    ("memory", "", stressed(1), "stress runs 0 of 4 workers; is there memory for them?"),
    ("io", "", stressed(6), "stress runs 5 of 6 workers; is there memory for them?"),
    ("cpu", "", stressed(12, 1.9), "stress used 1.90 of 4.00 free CPU seconds"),
    ("memory", "", stressed(5, 0.0), "stress used 0.00 of 4.00 free CPU seconds"),
    ("flood", "50%", flooded(sent=1599), "the flood sent 1599 of 2000 messages a second; ask for a lower FLOOD"),
    ("flood", "50%", flooded(elapsed_s=2.0), "the flood sent 1000 of 2000 messages a second; ask for a lower FLOOD"),
    ("flood", "published", flooded(failed_connects=3), "3 clients of the flood could not connect"),
    ("flood", "saturate", flooded(disconnects=2), "the broker dropped 2 clients of the flood"),
    ("flood", "published", flooded(stalled_s=0.4), "the flooder stood still for 0.4 of 1.0 s"),
    ("flood", "saturate", flooded(stalled_s=0.11), "the flooder stood still for 0.1 of 1.0 s"),
    ("slow-consumer", "", flooded(sent=399), "the flood sent 399 of 500 messages a second; ask for a lower FLOOD"),
    ("slow-consumer", "", flooded(failed_connects=1), "1 clients of the flood could not connect"),
    ("mqtt-stresser", "", stressed(4, 0.0), "mqtt-stresser used no CPU at all; see logs/flooder.log"),
]


def shortfall(kind: str, level: str, achieved: Achieved) -> str | None:
    disturbing = contention(kind, level)
    return disturbing.shortfall(achieved, disturbing.job(RUN, 4000.0))


@pytest.mark.parametrize(("kind", "level", "achieved"), IN_FULL)
def test_a_contention_that_did_as_asked_counts(kind: str, level: str, achieved: Achieved) -> None:
    assert shortfall(kind, level, achieved) is None


@pytest.mark.parametrize(("kind", "level", "achieved", "why"), SHORT)
def test_a_contention_that_fell_short_refuses_the_repetition(
    kind: str, level: str, achieved: Achieved, why: str
) -> None:
    assert shortfall(kind, level, achieved) == why


def by_the_second(*cpu_s: float, idle_cpu_s: float) -> Achieved:
    """A stressor that used so much in each second, while idle_cpu_s of CPU were left where it used nothing."""
    seconds = tuple(Second(1.0, used, 0.0 if used else idle_cpu_s) for used in cpu_s)
    free_cpu_s = sum(second.cpu_s + second.idle_cpu_s for second in seconds)
    return Achieved(sum(cpu_s), free_cpu_s, 12, {}, seconds)


def test_a_stressor_frozen_for_half_its_time_fell_short_even_where_the_sum_would_do() -> None:
    half = by_the_second(*[1.0] * 5, *[0.0] * 4, idle_cpu_s=1.0)
    assert half.cpu_s > HALF * half.free_cpu_s
    assert shortfall("cpu", "", half) == "stress used less than half of the free CPU in 4 of 9 seconds"
    assert shortfall("io", "", half) is None, "how busy it keeps a CPU depends on the disk"


def test_what_others_took_is_not_held_against_a_stressor() -> None:
    assert shortfall("cpu", "", by_the_second(*[0.3] * 10, idle_cpu_s=0.0)) is None


def test_one_bad_second_in_ten_is_no_reason_and_a_stressor_is_not_asked_for_more_than_its_workers_can() -> None:
    assert shortfall("cpu", "", by_the_second(*[1.0] * 9, 0.0, idle_cpu_s=1.0)) is None
    idle_host = Achieved(110.0, 200.0, 12, {}, (Second(10.0, 110.0, 1000.0),))
    assert shortfall("cpu", "", idle_host) is None


def test_every_kind_was_tried_both_ways() -> None:
    kinds = set(contentions.REGISTRY.all())
    assert {kind for kind, *_ in IN_FULL} == {kind for kind, *_ in SHORT} == kinds


def test_what_it_achieved_is_recorded_beside_what_was_asked() -> None:
    disturbing = contention("flood", "50%")
    asked = disturbing.job(RUN, 4000.0)
    record = disturbing.record(flooded(), asked)
    assert json.loads(json.dumps(record)) == record
    assert (record["kind"], record["level"], record["asked"]) == ("flood", "50%", asked)
    assert FLOODED.items() <= record.items()
    stress = contention("cpu").record(CPU_BUSY, None)
    assert (stress["cpu_seconds"], stress["processes"], stress["level"]) == (3.9, 12, None)
