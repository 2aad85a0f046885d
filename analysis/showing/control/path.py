# SPDX-License-Identifier: Apache-2.0
"""Where the time of O went, from a run with a capture at the broker (`path.parquet`); the parts add up to O."""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from analysis.judging.grid import Grid
from analysis.reading import control
from analysis.reading.bundle import Bundle, BundleError, first_line, tables
from analysis.showing.tables import milliseconds

FILE = "path.parquet"
PARTS = {
    "client_to_broker_us": "client → broker",
    "in_broker_request_us": "in the broker",
    "broker_to_pi_and_back_us": "broker → Pi → broker, less R",
    "in_broker_answer_us": "in the broker, back",
    "broker_to_client_us": "broker → client",
}
TOLERANCE_US = 50
"""The most by which a cycle's parts may miss its O."""

_KEYS = ("scenario", "arm", "interval_ms", "qos")
_TYPED = (
    pl.col("scenario", "arm").cast(pl.String),
    pl.col("interval_ms", "qos", "o_us").cast(pl.Int64),
    pl.col("warmup").cast(pl.Boolean),
    pl.col(*PARTS).cast(pl.Float64),
)


@dataclass(frozen=True)
class Split:
    """The cycles that were seen whole, and how far their parts are from O at the most (µs)."""

    rows: pl.DataFrame
    worst_us: float
    acausal: int
    """Cycles in which a message passed before it was sent, or after it was received: the clocks disagreed there."""
    clock_moved_us: int
    """By how much the broker's wall clock moved in all while frames were stamped by it."""

    @property
    def seen(self) -> str:
        """The number of cycles and the error of their parts, in words."""
        return f"{self.rows.height} cycles seen whole; their parts miss O by {self.worst_us:.1f} µs at the most"


def read(bundle: Bundle) -> Split:
    """Return the split of a bundle; raise `BundleError` where there is none, or where the parts miss O."""
    if not control.is_family(bundle.family):
        raise BundleError(f"{bundle.folder}: of the family {bundle.family.name}; the path is the control loop's")
    file: Path = bundle.folder / FILE
    if not (files := tables(bundle.folder, "path")):
        raise BundleError(f"{bundle.folder}: no {FILE}; the path is split by a run of its own, `make path-1`")
    try:
        rows = pl.read_parquet(files, glob=False).select(_TYPED).filter(~pl.col("warmup"))
        worst = rows.select((pl.sum_horizontal(*PARTS) - pl.col("o_us")).abs().max()).item()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise BundleError(f"{file}: cut or damaged ({first_line(error)}); take an undamaged copy") from None
    if worst is not None and worst > TOLERANCE_US:
        raise BundleError(f"{file}: the parts of a cycle miss its O by {worst:.0f} µs, more than {TOLERANCE_US}")
    acausal = rows.filter(pl.min_horizontal(*PARTS) < -TOLERANCE_US).height
    captures = [entry.get("capture") or {} for entry in bundle.document["repetitions"]]
    return Split(rows, worst or 0.0, acausal, sum(int(capture.get("clock_moved_us") or 0) for capture in captures))


def cautions(split: Split) -> list[str]:
    """Return warnings to go with the table; none in a sound run."""
    lines = []
    if split.acausal:
        lines.append(
            f"in {split.acausal} of {split.rows.height} cycles a part is negative: stamp and clock disagree there"
        )
    if split.clock_moved_us > TOLERANCE_US:
        lines.append(
            f"the wall clock moved by {split.clock_moved_us / 1000:g} ms during the run; every frame got the "
            "offset of its moment, but those waiting in the kernel just then may be off by it"
        )
    return lines


def table(split: Split) -> Grid:
    """Return mean (which add up) and 99th percentile (which do not) of each part, by cell, in ms."""
    rows = []
    for key, cell in sorted(split.rows.group_by(_KEYS)):
        scenario, arm, interval_ms, qos = map(str, key)
        for column, name in {**PARTS, "o_us": "O"}.items():
            values = cell[column]
            mean, tail = float(values.mean() or 0.0), float(values.quantile(0.99, "linear") or 0.0)  # type: ignore[arg-type]
            share = 100 * mean / max(float(cell["o_us"].mean() or 0.0), 1e-9)  # type: ignore[arg-type]
            rows.append(
                (scenario, arm, interval_ms, qos, name, milliseconds(mean), f"{share:.0f} %", milliseconds(tail))
            )
    header = ("scenario", "arm", "interval", "QoS", "part", "mean", "of O", "p99")
    return Grid("Where the time went, in ms", header, 5, tuple(rows))
