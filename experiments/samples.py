# SPDX-License-Identifier: Apache-2.0
"""From the control loop's rows to samples: where T, R and O get their values and a cycle its status."""

from __future__ import annotations

from collections import Counter
from typing import Any

from experiments.plan import Cell, Plan

_CAUSES = {None: "no answer", "board-timeout": "board timeout", "board-error": "board error"}


def samples(
    plan: Plan, cell: Cell, repetition: int, rows: list[list[Any]], ended_ns: int | None = None
) -> list[dict[str, Any]]:
    """Turn rows of `clients.schedule.Row` into samples, by sequence.

    `ended_ns`: when the control loop ended in the middle of them; the cycles it did not tell of are lost.
    """
    done = [_sample(plan, cell, repetition, row) for row in rows]
    if ended_ns is not None:
        done += [_untold(plan, cell, repetition, row, ended_ns) for row in _missing(plan, cell, rows)]
    return sorted(done, key=lambda sample: (sample["sequence"], sample["status"] == "duplicate"))


def _sample(plan: Plan, cell: Cell, repetition: int, row: list[Any]) -> dict[str, Any]:
    sequence, intended_ns, sent_ns, received_ns, r_us, outcome, board, duplicate = row
    sample = {
        "scenario": cell.scenario, "arm": cell.arm, "interval_ms": cell.interval_ms, "qos": cell.qos,
        "repetition": repetition, "sequence": sequence, "warmup": sequence < plan.settings.warmup,
        "intended_ns": intended_ns, "sent_ns": sent_ns, "received_ns": received_ns,
        "t_us": None, "r_us": None, "o_us": None, "status": "lost", "cause": None, "board": board,
    }  # fmt: skip
    if sent_ns is None:
        return sample | {"cause": "not sent"}
    if outcome != "ok" and not duplicate:
        return sample | {"cause": _CAUSES[outcome]}
    # Rounding T first keeps O = T − R exact in whole microseconds.
    t_us = (received_ns - sent_ns + 500) // 1000
    late = t_us > cell.timeout_ms * 1000
    status = "duplicate" if duplicate else "late" if late else "ok"
    return sample | {"t_us": t_us, "r_us": r_us, "o_us": t_us - r_us, "status": status}


def _missing(plan: Plan, cell: Cell, rows: list[list[Any]]) -> list[list[Any]]:
    """The rows of cycles that nothing is known of but when they were to begin, and not even that without any row."""
    known = {row[0] for row in rows}
    interval_ns = cell.interval_ms * 1_000_000
    start_ns = rows[0][1] - rows[0][0] * interval_ns if rows else None
    return [
        [sequence, None if start_ns is None else start_ns + sequence * interval_ns, *[None] * 5, False]
        for sequence in range(plan.settings.warmup + cell.messages)
        if sequence not in known
    ]


def _untold(plan: Plan, cell: Cell, repetition: int, row: list[Any], ended_ns: int) -> dict[str, Any]:
    """What was due after the end was not sent; of what was due before, nobody can say."""
    intended_ns = row[1]
    due = intended_ns is None or intended_ns <= ended_ns
    return _sample(plan, cell, repetition, row) | {"cause": "not reported" if due else "not sent"}


def counts(rows: list[dict[str, Any]]) -> dict[str, int]:
    """Count a repetition's cycles by status, without warm-up; every cycle is in exactly one of ok, late, lost."""
    counted = [row for row in rows if not row["warmup"]]
    by_status = Counter(row["status"] for row in counted)
    offered = [row for row in counted if row["status"] != "duplicate"]
    tally = {"offered": len(offered), "sent": sum(row["sent_ns"] is not None for row in offered)}
    tally |= {status: by_status[status] for status in ("ok", "late", "lost", "duplicate")}
    assert tally["offered"] == tally["ok"] + tally["late"] + tally["lost"]
    return tally
