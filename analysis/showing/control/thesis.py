# SPDX-License-Identifier: Apache-2.0
"""The thesis' published latencies, to stand beside ours, and which of them contradict themselves."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType

from analysis.reading import control
from analysis.reading.bundle import Cell
from analysis.reading.family import Value

Key = tuple[str, Value, Value, str, str]
"""Scenario, interval in ms, QoS, metric, statistic."""


@dataclass(frozen=True)
class Published:
    """A figure as printed, in µs, and why it cannot be right, where it cannot."""

    value_us: float
    fault: str | None


FAULTY = "†"
COMPARISONS: Sequence[tuple[tuple[str, ...], tuple[str, ...]]] = (
    (("0", "1"), ("T", "R", "O")),
    (("2", "3"), ("T", "R", "O")),
    (("1", "2"), ("O",)),
    (("1", "2", "4", "5"), ("O",)),
    (("3", "6"), ("O",)),
)
"""The scenarios that the thesis lays over each other, and in which metrics (its figures 6.1 to 6.5)."""


def published(cell: Cell, metric: str, statistic: str) -> Published | None:
    """Return the thesis' figure for the same scenario, interval and QoS, or None; it has min, avg and max only."""
    if not control.is_family(cell.family):
        return None
    return figures().get((cell.scenario, *control.place(cell), metric, statistic))


def fault(cell: Cell, metric: str, statistic: str) -> str | None:
    """Return why the thesis' figure for the same conditions cannot be right, with its place; None where it can."""
    figure = published(cell, metric, statistic)
    if figure is None or figure.fault is None:
        return None
    interval_ms, qos = control.place(cell)
    return f"thesis, scenario {cell.scenario} at {interval_ms} ms, QoS {qos}, {metric}: {figure.fault}"


@cache
def figures() -> Mapping[Key, Published]:
    """Return every published figure by its key."""
    faults = {_key(row): row["fault"] for row in _rows("thesis_faults.csv")}
    return MappingProxyType(
        {_key(row): Published(float(row["value_us"]), faults.get(_key(row))) for row in _rows("thesis_latency.csv")}
    )


def _rows(name: str) -> list[dict[str, str]]:
    text = resources.files("analysis.showing.control.reference").joinpath(name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _key(row: dict[str, str]) -> Key:
    return row["scenario"], int(row["interval_ms"]), int(row["qos"]), row["metric"], row["statistic"]
