# SPDX-License-Identifier: Apache-2.0
"""From the control loop's rows to samples: where T, R and O get their values and a cycle its status."""

from __future__ import annotations

from collections import Counter
from typing import Any

from experiments.plan import Cell, Plan

_CAUSES = {None: "no answer", "board-timeout": "board timeout", "board-error": "board error"}


def samples(plan: Plan, cell: Cell, repetition: int, rows: list[list[Any]]) -> list[dict[str, Any]]:
    """Turn rows of `clients.schedule.Row` into samples, by sequence."""
    done = [_sample(plan, cell, repetition, row) for row in rows]
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


def counts(rows: list[dict[str, Any]]) -> dict[str, int]:
    """Count a repetition's cycles by status, without warm-up; every cycle is in exactly one of ok, late, lost."""
    counted = [row for row in rows if not row["warmup"]]
    by_status = Counter(row["status"] for row in counted)
    offered = [row for row in counted if row["status"] != "duplicate"]
    tally = {"offered": len(offered), "sent": sum(row["sent_ns"] is not None for row in offered)}
    tally |= {status: by_status[status] for status in ("ok", "late", "lost", "duplicate")}
    assert tally["offered"] == tally["ok"] + tally["late"] + tally["lost"]
    return tally
