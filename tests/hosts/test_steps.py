# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from experiments import knobs, variables
from experiments.families.control.cells import settable
from hosts import guests, steps
from hosts.errors import HostTestError
from hosts.steps import Step


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("host", guests.names())
def test_every_swap_of_a_step_is_one_that_a_run_takes(host: str, quick: bool) -> None:
    for step in steps.plan(guests.named(host), quick=quick):
        words = [word for word in step.command.split() if "=" in word and word.partition("=")[0] in variables.VARIABLES]
        for word in words:
            name, _, value = word.partition("=")
            variables.VARIABLES[name].parse(name, value)


def test_every_knob_is_really_every_knob() -> None:
    asked = {knob.kind for some in knobs.parse(steps.EVERY_KNOB, settable()).values() for knob in some}
    kinds = {name for name, kind in knobs.REGISTRY.all().items() if kind.variable == "PRIORITY"}
    assert (
        asked | {"flags", "none"} == kinds
    )  # PRIORITY=published and a scenario that sets nothing are steps of their own


def test_the_quick_one_has_the_observer_doctor_and_a_run_with_every_knob() -> None:
    assert [step.name for step in steps.plan(guests.named("debian13"), quick=True)] == [
        "tests of observer and knobs", "doctor", "scenario-4 every knob",
    ]  # fmt: skip


def test_some_of_the_steps_can_be_asked_for() -> None:
    names = [step.name for step in steps.plan(guests.named("debian13"), quick=False, some="^path|replay")]
    assert names == ["path-1", "replay a bundle from elsewhere"]


@pytest.mark.parametrize("some", ["scenario-99", "("])
def test_steps_that_are_not_there_are_refused(some: str) -> None:
    with pytest.raises(HostTestError, match=r"STEPS="):
        steps.plan(guests.named("debian13"), quick=False, some=some)


@pytest.mark.parametrize(
    ("code", "said", "objection"),
    [
        (2, "testbed: ask to be put in group docker", None),
        (0, "group docker", "exit code 0 instead of 2"),
        (2, "no engine", "did not say 'group docker'"),
        (
            2,
            "group docker\nException ignored in: x\nTraceback (most recent call last):\n  File\nValueError: closed\n",
            "a Python error shows: ValueError: closed",
        ),
    ],
)
def test_a_refusal_has_its_code_its_reason_and_no_traceback(code: int, said: str, objection: str | None) -> None:
    assert Step("x", "make x", code=2, says="group docker").objection(code, said) == objection


def test_every_machine_can_be_asked_for_by_its_name() -> None:
    assert {guests.named(name).name for name in guests.names()} == set(guests.names())


def test_a_machine_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(HostTestError, match="HOST=debian3: no such machine; allowed are debian-unstable, debian12"):
        guests.named("debian3")
