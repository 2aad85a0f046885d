# SPDX-License-Identifier: Apache-2.0
"""What the kernel read beside what was requested, over the counted repetitions: the table of proofs."""

import json
from collections import defaultdict
from typing import Any

from analysis.judging.grid import Grid
from analysis.reading.bundle import Bundle
from analysis.reading.integrity import proofs

UNTOUCHED = "untouched"


def table(bundle: Bundle) -> Grid:
    """Return a row for each service, field and request; a knob without any proof has a row that says so."""
    held: dict[tuple[str, str, str], list[bool]] = defaultdict(list)
    read: dict[tuple[str, str, str], dict[str, None]] = defaultdict(dict)
    for repetition in bundle.repetitions:
        for proof in repetition.proofs if repetition.counted else ():
            key = (proof.service, proof.knob, proof.requested)
            held[key].append(proof.holds)
            read[key][_value(proof.observed)] = None
    cells = {cell.index: cell for cell in bundle.cells}
    for repetition, service, knob, holds in proofs(bundle):
        if holds is None:
            key = (service, knob, cells[repetition.cell].knobs[service][knob])
            held[key].append(False)
            read[key]["no proof"] = None
    rows = tuple(
        (*key, ", ".join(read[key]), f"{sum(flags)} of {len(flags)}", "" if all(flags) else "NOT PROVEN")
        for key, flags in sorted(held.items(), key=lambda entry: (entry[0][2] == UNTOUCHED, entry[0]))
    )
    header = ("service", "knob", "requested", "the kernel reads", "held in", "")
    return Grid("Proofs, read back while each repetition ran", header, 4, rows)


def requested(grid: Grid) -> Grid:
    """Return the rows that were requested or did not hold, for a terminal."""
    rows = tuple(row for row in grid.rows if row[2] != UNTOUCHED or row[5])
    return Grid(grid.title, grid.header, grid.labels, rows)


def _value(observed: str) -> str:
    """Return the value that a proof observed, as text."""
    parsed: Any = json.loads(observed)
    value = parsed.get("value") if isinstance(parsed, dict) else parsed
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
