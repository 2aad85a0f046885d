# SPDX-License-Identifier: Apache-2.0
"""What was found in each cell, in words, and how sure it is: what the report opens with."""

import math
from dataclasses import dataclass

from analysis.reading import labels
from analysis.reading.bundle import Bundle
from analysis.statistics.estimate import Estimate
from analysis.statistics.per_cell import CellSummary


@dataclass(frozen=True)
class Finding:
    """A sentence or two about the cell named `label`."""

    label: str
    text: str


def of_cell(bundle: Bundle, summary: CellSummary) -> Finding:
    """Return median, tail, losses and missed deadlines of a cell in words."""
    cell, counts = summary.cell, summary.counts
    several = len({c.scenario for c in bundle.cells}) > 1
    words = [f"scenario {cell.scenario}"] if several else []
    words += [cell.arm] if cell.arm else []
    # Lines of a figure are drawn along the first axis; of the others only what differs tells cells apart.
    words += labels.phrases(cell, dict.fromkeys([*bundle.axes[:1], *labels.varying(bundle.cells)]))
    sentences = (_latency(summary), _losses(counts.lost, counts.offered), _missed(summary))
    return Finding(", ".join(words), " ".join(sentences))


def _latency(summary: CellSummary) -> str:
    estimates = summary.estimates.get(summary.cell.family.round_trip)
    if estimates is None:
        return "No request was answered."
    parts = [f"{words} within {_value(estimates[name])}" for name, words in _SHARES.items() if name in estimates]
    slowest = f"the slowest took {rough(estimates['max'].value_us)} ms"
    return f"{_join([*parts, slowest])}."


_SHARES = {"p50": "Half of the requests were answered", "p99": "99 %", "p99.9": "99.9 %"}


def _join(parts: list[str]) -> str:
    text = ", ".join(parts[:-1]) + " and " + parts[-1] if len(parts) > 1 else parts[0]
    return text[0].upper() + text[1:]


def _value(estimate: Estimate) -> str:
    value = f"{rough(estimate.value_us)} ms"
    if estimate.low_us is None or estimate.high_us is None:
        return value
    high = "∞" if math.isinf(estimate.high_us) else rough(estimate.high_us)
    return f"{value} [{rough(estimate.low_us)}, {high}]"


def rough(value_us: float) -> str:
    """Return µs as ms, to three digits."""
    value = value_us / 1000
    return f"{value:.{max(2 - math.floor(math.log10(value)), 0)}f}" if value > 0 else "0"


def _losses(lost: int, offered: int) -> str:
    if not lost:
        return f"None of {offered:,} was lost."
    return f"{lost:,} of {offered:,} were lost ({lost / offered:.2%})."


def _missed(summary: CellSummary) -> str:
    misses = summary.misses
    if not misses.count:
        return f"All met the deadline of {misses.deadline_ms} ms."
    row = f", at most {misses.longest_burst} in a row" if misses.longest_burst > 1 else ""
    share = misses.count / summary.counts.offered
    return f"{misses.count:,} missed the deadline of {misses.deadline_ms} ms ({share:.2%}){row}."
