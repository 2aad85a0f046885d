# SPDX-License-Identifier: Apache-2.0
"""A knob without proof is no knob: each one is made to fail silently here, and the repetition must be refused."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from typing import Any, cast

import kernel
import pytest

from experiments import knobs, proof
from experiments.families.control import outcome
from experiments.knobs import Service
from experiments.observer.state import Connection, State, Thread, Unreadable

SERVICE = Service("broker", (0, 1))
CPU = min(os.sched_getaffinity(0))
Change = Callable[[State], Any]


def untouched(**changes: Any) -> State:
    """Of a container: three threads, two connections, weight and budget as the engine leaves them."""
    return kernel.untouched(
        cpus=(0, 1), threads=3, connections=2, **{"weight": ["shares", 1024], "rt_budget_us": 0} | changes
    )


def threads(number: slice = slice(None), **changes: Any) -> Change:
    """Change all threads, or some."""
    return lambda state: [thread.update(cast("Thread", changes)) for thread in state["threads"][number]]


def holds(**changes: Any) -> Change:
    return lambda state: state.update(cast("State", changes))


def connections(number: slice = slice(None), **changes: Any) -> Change:
    return lambda state: [each.update(cast("Connection", changes)) for each in state["connections"][number]]


ONE = slice(1, 2)
NOTHING = holds()
OTHER = threads(ONE, policy="SCHED_OTHER", priority=0)
FIFO_90 = threads(policy="SCHED_FIFO", priority=90)

BOTH = threads(ONE, cpus=[0, 1])
SHARES_2048 = holds(weight=["shares", 2048])
WEIGHT_79 = holds(weight=["weight", 79])  # what runc made of 2048 on cgroup v2
NAGLE = connections(nodelay=False)

# What was asked; what the kernel holds once it took; a way to fail silently; the field, and what is read of it.
MUTATIONS: dict[str, tuple[str, Change, Change, str, str]] = {
    "fifo not applied": ("fifo:90", FIFO_90, threads(policy="SCHED_OTHER", priority=0), "priority", "SCHED_OTHER"),
    "fifo on all threads but one": ("fifo:90", FIFO_90, OTHER, "priority", "['SCHED_FIFO 90', 'SCHED_OTHER']"),
    "fifo at another priority": ("fifo:90", FIFO_90, threads(priority=89), "priority", "SCHED_FIFO 89"),
    "one thread at another priority": ("fifo:90", FIFO_90, threads(ONE, priority=1), "priority", "SCHED_FIFO 1"),
    "fifo became rr": ("fifo:90", FIFO_90, threads(policy="SCHED_RR"), "priority", "SCHED_RR 90"),
    "rr not applied": ("rr:5", threads(policy="SCHED_RR", priority=5), OTHER, "priority", "SCHED_OTHER"),
    "rr became fifo": ("rr:5", threads(policy="SCHED_RR", priority=5), threads(policy="SCHED_FIFO"), "priority", "O 5"),
    "nice still 0": ("nice:-5", threads(nice=-5), threads(nice=0), "priority", "SCHED_OTHER;"),
    "nice on all threads but one": ("nice:5", threads(nice=5), threads(ONE, nice=0), "priority", "SCHED_OTHER nice 5"),
    "nice became batch": ("nice:5", threads(nice=5), threads(policy="SCHED_BATCH"), "priority", "SCHED_BATCH nice 5"),
    "flags that did apply something": ("flags", NOTHING, FIFO_90, "priority", "SCHED_FIFO 90"),
    "none, but niced": ("none", NOTHING, threads(nice=1), "priority", "SCHED_OTHER nice 1"),
    "weight dropped": ("weight:2048", SHARES_2048, holds(weight=["shares", 1024]), "weight", "default"),
    "weight dropped, v2": ("weight:2048", WEIGHT_79, holds(weight=["weight", 100]), "weight", "default"),
    "weight another": ("weight:2048", SHARES_2048, holds(weight=["shares", 2050]), "weight", "shares 2050"),
    "weight without a group": ("weight:2048", SHARES_2048, holds(weight=None), "weight", "default"),
    "quota dropped": ("quota:0.5", holds(quota=0.5), holds(quota=None), "quota", "None"),
    "quota of another size": ("quota:0.5", holds(quota=0.5), holds(quota=0.6), "quota", "0.6"),
    "affinity wider": (f"cpus:{CPU}", threads(cpus=[CPU]), threads(cpus=[0, 1]), "affinity", "(0, 1)"),
    "affinity wider on one thread": (f"cpus:{CPU}", threads(cpus=[CPU]), BOTH, "affinity", "(0, 1)"),
    "one connection with Nagle": ("nodelay", NOTHING, connections(ONE, nodelay=False), "tcp", "['nagle', 'nodelay']"),
    "all connections with Nagle": ("nodelay", NOTHING, connections(nodelay=False), "tcp", "nagle"),
    "one connection without Nagle": ("nagle", NAGLE, connections(ONE, nodelay=True), "tcp", "'nodelay'"),
    "no connection to be seen": ("nodelay", NOTHING, holds(connections=[]), "tcp", "None"),
    "connections not to be looked at": ("nodelay", NOTHING, holds(connections_error="EPERM"), "tcp", "EPERM"),
}  # fmt: skip

NOBODY_ASKED: dict[str, tuple[Change, str, str]] = {
    "fifo": (FIFO_90, "priority", "SCHED_FIFO 90"),
    "one fifo thread": (threads(ONE, policy="SCHED_FIFO", priority=1), "priority", "['SCHED_FIFO 1', 'SCHED_OTHER']"),
    "nice": (threads(ONE, nice=-1), "priority", "SCHED_OTHER nice -1"),
    "idle": (threads(policy="SCHED_IDLE"), "priority", "SCHED_IDLE"),
    "weight": (holds(weight=["shares", 512]), "weight", "shares 512"),
    "weight, cgroup v2": (holds(weight=["weight", 39]), "weight", "weight 39"),
    "quota": (holds(quota=1.0), "quota", "1.0"),
    "affinity narrower": (threads(cpus=[0]), "affinity", "(0,)"),
    "affinity wider": (threads(ONE, cpus=[0, 1, 2]), "affinity", "(0, 1, 2)"),
}

UNASKABLE = {"tcp"}
"""Services that disturb may connect as they like; the others are always asked."""


def problems(state: State | Unreadable, *asked: str) -> list[str]:
    return proof.problems(proof.of_service(SERVICE, state, tuple(map(knobs.one, asked))))


def refused(lines: list[str], field: str, requested: str, seen: str) -> None:
    """Exactly one line, which names service, knob, request, what was read instead, and a remedy."""
    (line,) = lines
    assert line.startswith(f"broker: {field} should be ")
    assert f"({requested})" in line
    said, _, remedy = line.partition("; ")
    assert seen in f"{said.partition(' but reads ')[2]};"
    assert remedy == proof.REMEDIES.get(field, proof.REMEDY)


@pytest.mark.parametrize("how", MUTATIONS)
def test_a_knob_that_silently_failed_refuses_the_repetition(how: str) -> None:
    asked, take, fail, field, seen = MUTATIONS[how]
    state = untouched()
    take(state)
    assert problems(state, asked) == []
    fail(state)
    refused(problems(state, asked), field, asked, seen)


@pytest.mark.parametrize("how", NOBODY_ASKED)
def test_what_nobody_asked_for_refuses_it_just_as_much(how: str) -> None:
    change, field, seen = NOBODY_ASKED[how]
    state = untouched()
    assert problems(state) == []
    change(state)
    refused(problems(state), field, "untouched", seen)


def test_every_kind_was_made_to_fail_and_every_field_changed() -> None:
    """But those that no kernel can tell: their proofs are tried with their own statements."""
    of_kernel = {name for name, kind in knobs.REGISTRY.all().items() if kind.of_kernel}
    fields = {field for field, kind in knobs.fields().items() if kind.of_kernel}
    assert {asked.partition(":")[0] for asked, *_ in MUTATIONS.values()} == of_kernel
    assert {field for _, _, _, field, _ in MUTATIONS.values()} == fields
    assert {field for _, field, _ in NOBODY_ASKED.values()} == fields - UNASKABLE


def test_knobs_together_are_proved_each_for_itself() -> None:
    state = untouched()
    for change in (FIFO_90, threads(cpus=[CPU]), holds(weight=["shares", 2048]), holds(quota=0.5)):
        change(state)
    asked = ("fifo:90", f"cpus:{CPU}", "weight:2048", "quota:0.5", "nodelay")
    assert problems(state, *asked) == []
    assert len(problems(untouched(), *asked)) == 4


def test_a_service_of_which_no_thread_is_seen_is_not_proved() -> None:
    lines = problems(untouched() | {"threads": []}, "fifo:90")
    assert [line.split()[1] for line in lines] == ["affinity", "priority"]
    assert all("reads []" in line for line in lines)


def test_the_proof_of_a_priority_shows_each_thread() -> None:
    state = untouched()
    FIFO_90(state)
    entries = proof.of_service(SERVICE, copy.deepcopy(state), (knobs.one("fifo:90"),))
    (entry,) = [entry for entry in entries if entry["knob"] == "priority"]
    assert entry["requested"] == "fifo:90"
    assert entry["observed"] == {"value": "SCHED_FIFO 90", "threads": state["threads"]}


def test_a_service_that_is_gone_refuses_the_repetition() -> None:
    (line,) = problems({"error": "process 7 is gone"}, "fifo:90")
    assert line.startswith("broker: process should be running")
    assert "process 7 is gone" in line


def test_a_real_time_budget_that_somebody_lowered_refuses_the_repetition() -> None:
    state = untouched(rt_budget_us=400_000)
    assert proof.problems(proof.of_rt_budget(SERVICE, state, 400_000)) == []
    state["rt_budget_us"] = 1000
    (line,) = proof.problems(proof.of_rt_budget(SERVICE, state, 400_000))
    assert line.startswith("broker: rt budget should be 400000 us")
    assert "reads 1000 us; another program" in line


@pytest.mark.parametrize("held_us", [None, 0])
def test_without_budgets_per_group_or_without_a_real_time_knob_there_is_none_to_prove(held_us: int | None) -> None:
    assert proof.of_rt_budget(SERVICE, untouched(rt_budget_us=held_us), 0 if held_us == 0 else 400_000) == []


@pytest.mark.parametrize(("held_bytes", "reads"), [(None, "no limit"), (1 << 20, "1048576 bytes")])
def test_a_memory_limit_that_was_dropped_on_the_way_refuses_the_repetition(held_bytes: int | None, reads: str) -> None:
    assert proof.problems(proof.of_memory(SERVICE, untouched(memory_limit_bytes=1 << 29), 1 << 29)) == []
    (line,) = proof.problems(proof.of_memory(SERVICE, untouched(memory_limit_bytes=held_bytes), 1 << 29))
    assert line.startswith(f"broker: memory should be 536870912 bytes (untouched) but reads {reads}; this engine")


def test_where_a_service_has_no_memory_limit_there_is_none_to_prove() -> None:
    assert proof.of_memory(SERVICE, untouched(), None) == []


@pytest.mark.parametrize("seen", [None, "", "listener 1883\nmax_qos 1\n"])
def test_a_broker_on_another_configuration_refuses_the_repetition(seen: str | None) -> None:
    ours = "listener 1883\n"
    assert proof.problems(proof.of_configuration("broker", untouched(), ours)) == []
    (line,) = proof.problems(proof.of_configuration("broker", untouched(configuration=seen), ours))
    assert line.startswith("broker: configuration should be sha256:")
    assert proof.REMEDIES["configuration"] in line


@pytest.mark.parametrize(
    ("granted", "seen", "refused_for"),
    [
        (2, [[2, 2]], []), (2, [], []), (1, [[2, 2]], ["qos granted"]), (2, [[1, 2]], ["qos of requests, answers"]),
        (2, [[2, 1]], ["qos of requests, answers"]), (2, [[2, 1], [2, 2]], ["qos of requests, answers"]),
        (0, [[2, 0]], ["qos granted", "qos of requests, answers"]),
    ],
)  # fmt: skip
def test_both_hops_must_have_had_the_qos_asked_for(granted: int, seen: list[list[int]], refused_for: list[str]) -> None:
    entries = outcome.of_qos({"qos_seen": seen}, granted, 2, 2)
    assert [entry["knob"] for entry in entries if not entry["holds"]] == refused_for
    lines = proof.problems(entries)
    assert all("choose a lower QOS" in line for line in lines)
    assert len(lines) == len(refused_for)


def test_the_proof_of_a_qos_shows_what_was_asked_and_what_was_seen_of_both_hops() -> None:
    granting, seen = outcome.of_qos({"qos_seen": [[2, 1]]}, 1, 2, 0)
    shown = [(each["service"], each["knob"], each["requested"], each["observed"]["value"]) for each in (granting, seen)]
    assert shown == [("broker", "qos granted", "0", 1), ("broker", "qos of requests, answers", "2, 0", [(2, 1)])]
    assert not granting["holds"]
    assert not seen["holds"]


def test_an_answer_at_qos_0_to_a_request_at_qos_2_is_proved_as_the_thesis_had_it() -> None:
    assert proof.problems(outcome.of_qos({"qos_seen": [[2, 0]]}, 0, 2, 0)) == []
    assert len(proof.problems(outcome.of_qos({"qos_seen": [[2, 2]]}, 2, 2, 0))) == 2


def protection(asked: str, *, strangers: bool | None = None) -> dict[str, Any]:
    """What both clients and the broker say where SECURITY is as asked."""
    user, tls = asked != "none", asked == "tls"
    side = {"user": "x" if user else None, "tls": "TLSv1.3" if tls else None, "cipher": None, "server": None}
    return {"control-loop": side, "pi": side, "broker": {"strangers": not user if strangers is None else strangers}}


@pytest.mark.parametrize("asked", ["none", "password", "tls"])
@pytest.mark.parametrize("found", ["none", "password", "tls"])
def test_each_side_of_the_broker_must_be_as_protected_as_asked(asked: str, found: str) -> None:
    knob = () if asked == "none" else (knobs.one(asked),)
    told = protection(found)
    proofs = outcome.of_security(told, {"broker": knob, "control-loop": knob, "pi": knob})
    assert [(each["service"], each["knob"]) for each in proofs] == [
        (name, "security") for name in ("broker", "control-loop", "pi")
    ]
    for each in proofs:
        assert each["requested"] == ("untouched" if asked == "none" else asked)
        assert (each["expected"], each["observed"]["value"], each["holds"]) == (asked, found, asked == found)
        assert each["observed"]["connection"] == told[each["service"]]
    assert bool(proof.problems(proofs)) == (asked != found)


def test_a_broker_that_lets_strangers_in_is_not_protected() -> None:
    knob = (knobs.one("password"),)
    broker, *clients = outcome.of_security(
        protection("password", strangers=True), {"broker": knob, "control-loop": knob, "pi": knob}
    )
    assert (broker["holds"], broker["observed"]["value"]) == (False, "none")
    assert all(each["holds"] for each in clients)


def test_a_board_that_repeats_itself_refuses_the_repetition() -> None:
    assert proof.problems(outcome.of_board({"board_repeats": 0})) == []
    (line,) = proof.problems(outcome.of_board({"board_repeats": 3}))
    assert line.startswith("board: answers once should be 0 repeated")
    assert "reads 3 repeated; the board repeats itself" in line


def test_where_nothing_was_answered_nothing_is_proved_of_the_messages() -> None:
    (entry,) = outcome.of_qos({"qos_seen": []}, 2, 2, 2)
    assert (entry["knob"], entry["holds"]) == ("qos granted", True)
