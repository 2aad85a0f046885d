# SPDX-License-Identifier: Apache-2.0
"""When a repetition is noisy: the rule, set beforehand, and the lateness it looks at."""

from __future__ import annotations

from typing import Any

RULE = {"steal_percent": 5.0, "foreign_cpu_percent": 10.0, "lateness_p99_us": 2000.0, "observer_gap_ms": 1000.0}
"""A repetition above one of these is noisy: flagged, kept, and run once more. Set before anything is measured.

In a gap of the observer's nothing was seen, of noise or else. Lateness counts only without contention and fault: under
them, a late control loop is what is being measured.
"""


def lateness(rows: list[dict[str, Any]]) -> dict[str, float | None]:
    """How late requests left (sent − intended, µs) over a repetition's counted cycles: p50, p99 (nearest rank), max."""
    late_us = sorted(
        (row["sent_ns"] - row["intended_ns"]) / 1000
        for row in rows
        if row["sent_ns"] is not None and not row["warmup"] and row["status"] != "duplicate"
    )
    if not late_us:
        return {"p50": None, "p99": None, "max": None}
    rank = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {name: round(late_us[max(0, -int(-share * len(late_us) // 1) - 1)], 1) for name, share in rank.items()}


def reasons(measured: dict[str, Any], *, disturbed: bool) -> list[str]:
    """Return which limits of RULE a repetition broke; empty when it was quiet."""
    values = {name: measured.get(name) for name in ("steal_percent", "foreign_cpu_percent", "observer_gap_ms")}
    if not disturbed:
        values["lateness_p99_us"] = measured["lateness_us"]["p99"]
    return [
        f"{name} {value:g} is above {RULE[name]:g}"
        for name, value in values.items()
        if value is not None and value > RULE[name]
    ]
