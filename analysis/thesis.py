# SPDX-License-Identifier: Apache-2.0
"""The thesis' published latencies, to stand beside ours, and which of them contradict themselves."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType

from analysis.bundle import Cell

Key = tuple[str, int, int, str, str]
"""Scenario, interval in ms, QoS, metric, statistic."""


@dataclass(frozen=True)
class Published:
    """A figure as printed, in µs, and why it cannot be right, where it cannot."""

    value_us: float
    fault: str | None


def published(cell: Cell, metric: str, statistic: str) -> Published | None:
    """The thesis' figure for the same scenario, interval and QoS; it has min, avg and max only."""
    return figures().get((cell.scenario, cell.interval_ms, cell.qos, metric, statistic))


@cache
def figures() -> Mapping[Key, Published]:
    """Every published figure by its key."""
    faults = {_key(row): row["fault"] for row in _rows("thesis_faults.csv")}
    return MappingProxyType(
        {_key(row): Published(float(row["value_us"]), faults.get(_key(row))) for row in _rows("thesis_latency.csv")}
    )


def _rows(name: str) -> list[dict[str, str]]:
    text = resources.files("analysis.reference").joinpath(name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _key(row: dict[str, str]) -> Key:
    return row["scenario"], int(row["interval_ms"]), int(row["qos"]), row["metric"], row["statistic"]
