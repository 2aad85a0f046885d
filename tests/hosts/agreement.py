# SPDX-License-Identifier: Apache-2.0
"""What the guest's kernel was seen to hold (`readback.py`) against what a bundle's proofs say of the same moments."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

Reading = dict[str, Any]
"""One line of `readback.py`."""

KNOBS = ("priority", "affinity", "tcp", "weight", "quota", "memory")
"""The proofs that are about the kernel's state; others are about what the programs said."""

_CELL = ("scenario", "arm", "interval_ms", "qos")


@dataclass
class Agreement:
    """The outcome for one bundle."""

    readings: int = 0
    compared: int = 0
    disagreements: list[str] = field(default_factory=list)
    seen: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By service and knob, what the kernel held in the last reading."""

    def describe(self) -> str:
        """Say it in one line."""
        if self.disagreements:
            return f"{len(self.disagreements)} disagree, first: {self.disagreements[0]}"
        return f"{self.compared} values in {self.readings} readings agree"


def compare(bundle: Path, readings: Iterable[Reading], *, all_read: bool = True) -> Agreement:
    """Hold every reading that fell between a repetition's first request and last answer against its proofs.

    With `all_read` each repetition must have one; a run that is not ours to plan may have shorter ones.
    """
    facts, readings, agreement = json.loads((bundle / "bundle.json").read_text()), list(readings), Agreement()
    windows = _windows(bundle)
    for entry in facts["repetitions"]:
        if not entry["counted"]:
            continue
        cell = facts["plan"]["cells"][entry["cell"]]
        first_ns, last_ns = windows[(*(cell[name] for name in _CELL), entry["repetition"])]
        during = [reading for reading in readings if first_ns <= reading["from_ns"] and reading["to_ns"] <= last_ns]
        where = f"repetition {entry['repetition']}"
        if not during and all_read:
            agreement.disagreements.append(f"{where}: the kernel was not read while it ran")
        for reading in during:
            agreement.readings += 1
            _hold_against(reading, entry["proofs"], where, agreement)
    if not agreement.readings and not agreement.disagreements and all_read:
        agreement.disagreements.append("no repetition of it counts")
    return agreement


def state(service: dict[str, Any]) -> dict[str, Any]:
    """Give one service's reading in the words of the proofs' `observed.value`, by knob."""
    threads = list(service["threads"].values())
    found = {
        "priority": _one_or_all(_scheduling(*thread[:3]) for thread in threads),
        "affinity": _one_or_all(_cpus(thread[3]) for thread in threads),
        "tcp": _one_or_all("nodelay" if option else "nagle" for option in service["nodelay"]),
    }
    if "cpu.weight" in service:
        weight = service["cpu.weight"]
        found["weight"] = "default" if weight == "100" else f"weight {weight}"
    if "cpu.max" in service:
        limit, period = service["cpu.max"].split()
        found["quota"] = None if limit == "max" else round(int(limit) / int(period), 3)
    if "memory.max" in service:
        limit = service["memory.max"]
        found["memory"] = "no limit" if limit == "max" else f"{limit} bytes"
    return found


def _hold_against(reading: Reading, proofs: list[dict[str, Any]], where: str, agreement: Agreement) -> None:
    for proof in proofs:
        service, knob = proof["service"], proof["knob"]
        if knob not in KNOBS:
            continue
        if service not in reading["services"]:
            agreement.disagreements.append(f"{where}: {service} was not found running")
            continue
        held = state(reading["services"][service])
        if knob not in held:  # a plain process has no group of its own
            continue
        agreement.seen.setdefault(service, {})[knob] = held[knob]
        agreement.compared += 1
        proved = proof["observed"]["value"]
        if held[knob] != proved:
            agreement.disagreements.append(f"{where}: {service}: the kernel held {knob} {held[knob]}, proved {proved}")
        for thread in proof["observed"].get("threads", ()):
            agreement.disagreements += _thread_disagrees(thread, reading["services"][service]["threads"], where)


def _thread_disagrees(proved: dict[str, Any], held: dict[str, list[Any]], where: str) -> Iterator[str]:
    """Threads come and go; one that both saw must be the same to both."""
    thread = held.get(str(proved["tid"]))
    if thread is None:
        return
    said = (_scheduling(*thread[:3]), _cpus(thread[3]))
    claimed = (_scheduling(proved["policy"], proved["priority"], proved["nice"]), proved["cpus"])
    if said != claimed:
        yield f"{where}: thread {proved['tid']} ({proved['name']}): the kernel held {said}, proved {claimed}"


def _windows(bundle: Path) -> dict[tuple[Any, ...], tuple[int, int]]:
    """First request and last answer of each repetition, on the guest's CLOCK_MONOTONIC."""
    found: dict[tuple[Any, ...], tuple[int, int]] = {}
    for row in pq.read_table(bundle / "samples.parquet").to_pylist():
        times = [row[name] for name in ("sent_ns", "received_ns") if row[name] is not None]
        if times:
            key = (*(row[name] for name in _CELL), row["repetition"])
            low, high = found.get(key, (min(times), max(times)))
            found[key] = (min(low, *times), max(high, *times))
    return found


def _scheduling(policy: str, priority: int, nice: int) -> str:
    policy = policy if policy.startswith("SCHED_") else f"SCHED_{policy}"
    if policy in ("SCHED_FIFO", "SCHED_RR"):
        return f"{policy} {priority}"
    return policy if nice == 0 else f"{policy} nice {nice}"


def _cpus(listed: str) -> list[int]:
    """Read the kernel's list of CPUs, e.g. `0,2-3`."""
    bounds = [part.partition("-") for part in listed.split(",")]
    return [cpu for first, _, last in bounds for cpu in range(int(first), int(last or first) + 1)]


def _one_or_all(values: Iterable[Any]) -> Any:
    """What all agree on, else every variant there is; None where there is none."""
    variants: list[Any] = []
    for value in values:
        if value not in variants:
            variants.append(value)
    return (variants[0] if len(variants) == 1 else sorted(variants)) if variants else None
