# SPDX-License-Identifier: Apache-2.0
"""From what the driver told to samples: where each metric gets its value and a cycle its status."""

from __future__ import annotations

from collections import Counter
from typing import Any

from experiments.cells import Cell
from experiments.families import Cycle, Family
from experiments.plan import Plan

Sample = dict[str, Any]
"""A row of samples.parquet; docs/bundle.md lists its columns."""


def samples(
    plan: Plan, cell: Cell, repetition: int, rows: list[list[Any]], ended_ns: int | None = None
) -> list[Sample]:
    """Turn the driver's rows into samples, by sequence.

    `ended_ns`: when the driver ended in the middle of them; the cycles it did not tell of are lost.
    """
    cycles = [plan.family.cycle(row) for row in rows]
    done = [_sample(plan, cell, repetition, cycle) for cycle in cycles]
    if ended_ns is not None:
        done += [_untold(plan, cell, repetition, cycle, ended_ns) for cycle in _missing(plan, cell, cycles)]
    return sorted(done, key=lambda sample: (sample["sequence"], sample["status"] == "duplicate"))


def _sample(plan: Plan, cell: Cell, repetition: int, cycle: Cycle) -> Sample:
    family = plan.family
    sample = {
        "scenario": cell.scenario, "arm": cell.arm, **{axis.name: getattr(cell, axis.name) for axis in family.axes},
        "repetition": repetition, "sequence": cycle.sequence, "warmup": cycle.sequence < plan.settings.warmup,
        "intended_ns": cycle.intended_ns, "sent_ns": cycle.sent_ns, "received_ns": cycle.received_ns,
        **dict.fromkeys(metric.column for metric in family.metrics),
        "status": "lost", "cause": None, **{name: cycle.facts.get(name) for name in family.columns},
    }  # fmt: skip
    if cycle.sent_ns is None:
        return sample | {"cause": "not sent"}
    if cycle.received_ns is None or (cycle.failure is not None and not cycle.duplicate):
        return sample | {"cause": cycle.failure or "no answer"}
    # Rounding the round trip first keeps differences exact in whole microseconds.
    t_us = (cycle.received_ns - cycle.sent_ns + 500) // 1000
    status = "duplicate" if cycle.duplicate else "late" if t_us > cell.timeout_ms * 1000 else "ok"
    return sample | _latencies(family, t_us, cycle) | {"status": status}


def _latencies(family: Family[Any], t_us: int, cycle: Cycle) -> dict[str, int | None]:
    """Return every metric's value (µs) by column; the first is the round trip."""
    values: dict[str, int | None] = {family.metrics[0].name: t_us, **cycle.measured_us}
    for metric in family.metrics:
        if metric.difference:
            whole, part = (values[name] for name in metric.difference)
            values[metric.name] = None if whole is None or part is None else whole - part
    return {metric.column: values[metric.name] for metric in family.metrics}


def _missing(plan: Plan, cell: Cell, cycles: list[Cycle]) -> list[Cycle]:
    """The cycles that nothing is known of but when they were to begin, and not even that where none was told of."""
    known = {cycle.sequence for cycle in cycles}
    interval_ns = cell.interval_ms * 1_000_000
    first = cycles[0] if cycles else None
    start_ns = None if first is None or first.intended_ns is None else first.intended_ns - first.sequence * interval_ns
    return [
        Cycle(sequence, None if start_ns is None else start_ns + sequence * interval_ns)
        for sequence in range(plan.settings.warmup + cell.messages)
        if sequence not in known
    ]


def _untold(plan: Plan, cell: Cell, repetition: int, cycle: Cycle, ended_ns: int) -> Sample:
    """What was due after the end was not sent; of what was due before, nobody can say."""
    due = cycle.intended_ns is None or cycle.intended_ns <= ended_ns
    return _sample(plan, cell, repetition, cycle) | {"cause": "not reported" if due else "not sent"}


def counts(rows: list[Sample]) -> dict[str, int]:
    """Count a repetition's cycles by status, without warm-up; every cycle is in exactly one of ok, late, lost."""
    counted = [row for row in rows if not row["warmup"]]
    by_status = Counter(row["status"] for row in counted)
    offered = [row for row in counted if row["status"] != "duplicate"]
    tally = {"offered": len(offered), "sent": sum(row["sent_ns"] is not None for row in offered)}
    tally |= {status: by_status[status] for status in ("ok", "late", "lost", "duplicate")}
    assert tally["offered"] == tally["ok"] + tally["late"] + tally["lost"]
    return tally
