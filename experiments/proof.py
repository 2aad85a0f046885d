# SPDX-License-Identifier: Apache-2.0
"""Proofs: what was asked of each service against what the kernel holds, field by field.

A field that no knob sets is proved too, to be as nobody touched it: an unlabelled condition is as wrong as a
missing one.
"""

from __future__ import annotations

import hashlib
from typing import Any, NotRequired, TypedDict

from experiments import knobs
from experiments.knobs import Knob, Service
from experiments.observer.state import State, Unreadable


class Proof(TypedDict):
    """An entry of a repetition's `proofs` in bundle.json."""

    service: str
    knob: str
    requested: str
    """As a user would write it; `untouched` where nobody asked for anything."""
    holds: bool
    observed: dict[str, Any]
    """`value`, in the form of `expected`, and what else was read with it."""
    expected: NotRequired[Any]
    text: NotRequired[str | None]
    """Of a configuration, what was read."""


def of_service(service: Service, state: State | Unreadable, chosen: tuple[Knob, ...]) -> list[Proof]:
    """Prove every field of one service; give the entries of a repetition's `proofs` in bundle.json."""
    if "error" in state:
        return [entry(service.name, "process", "running", state["error"], holds=False)]
    by_field = {knob.field: knob for knob in chosen}
    proofs = []
    for field, kind in knobs.fields().items():
        if not kind.of_kernel:
            continue
        knob = by_field.get(field)
        expected = knob.expected() if knob else kind.untouched(service)
        if expected is NotImplemented:
            continue
        observed = kind.observed(state)
        requested = str(knob) if knob else "untouched"
        holds = knob.agrees(observed) if knob else observed == expected
        one = entry(service.name, field, requested, observed, holds=holds)
        if field == "priority":
            one["observed"]["threads"] = state["threads"]
        proofs.append(one | {"expected": expected})
    return proofs


def of_rt_budget(service: Service, state: State | Unreadable, budget_us: int) -> list[Proof]:
    """Prove the real-time budget a second of a service's group; nothing to prove where the kernel keeps none."""
    held_us = None if "error" in state else state["rt_budget_us"]
    if not budget_us or held_us is None:
        return []
    return [entry(service.name, "rt budget", f"{budget_us} us", f"{held_us} us", holds=held_us == budget_us)]


def of_memory(service: Service, state: State | Unreadable, limit_bytes: int | None) -> list[Proof]:
    """Prove how much memory a service's group may take; nothing to prove where no limit can be had."""
    if limit_bytes is None or "error" in state:
        return []
    held_bytes = state["memory_limit_bytes"]
    observed = "no limit" if held_bytes is None else f"{held_bytes} bytes"
    one = entry(service.name, "memory", "untouched", observed, holds=held_bytes == limit_bytes)
    return [one | {"expected": f"{limit_bytes} bytes"}]


def of_configuration(service: str, state: State | Unreadable, expected: str) -> list[Proof]:
    """Prove that a service runs on the configuration we wrote, as its own process sees the file."""
    text = None if "error" in state else state["configuration"]
    one = entry(service, "configuration", str(_digest(expected)), _digest(text), holds=text == expected)
    return [one | {"text": text}]


def problems(proofs: list[Proof]) -> list[str]:
    """Return one line, with its remedy, for each proof that does not hold."""
    return [
        f"{each['service']}: {each['knob']} should be {each.get('expected', each['requested'])} "
        f"({each['requested']}) but reads {each['observed']['value']}; {REMEDIES.get(each['knob'], REMEDY)}"
        for each in proofs
        if not each["holds"]
    ]


REMEDY = "`make doctor` tells what this host can do"
REMEDIES: dict[str, str] = {
    "priority": "a real-time policy needs CAP_SYS_NICE and, with RT_GROUP_SCHED, cgroup v1; see `make doctor`",
    "rt budget": "another program changed it meanwhile; without it the kernel stops the service's threads",
    "weight": "this engine or kernel dropped it; update Docker Compose, see `make doctor`",
    "quota": "this engine or kernel dropped it; update Docker Compose, see `make doctor`",
    "memory": "this engine or kernel dropped it; update Docker Compose, see `make doctor`",
    "configuration": "it reads another file than the testbed's; is the image ours or the published one?",
    "process": "see its log in the bundle",
}
"""By knob, what a user can do; a family adds those of its own."""


def _digest(text: str | None) -> str | None:
    return None if text is None else f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def entry(service: str, knob: str, requested: str, value: Any, *, holds: bool) -> Proof:
    """Return an entry of a repetition's `proofs`: what was asked of a service, and what was read."""
    return {"service": service, "knob": knob, "requested": requested, "holds": holds, "observed": {"value": value}}
