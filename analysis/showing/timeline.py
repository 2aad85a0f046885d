# SPDX-License-Identifier: Apache-2.0
"""Latency over time, and beneath it what the host and the services suffered: causes beside effects.

Times are µs or ms since the first counted cycle of a repetition was due, on the same monotonic clock.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from analysis.reading.arrays import Integers
from analysis.reading.bundle import Bundle, BundleError, Cell, Repetition, tables
from analysis.statistics import cycles

POINTS = 200_000
SLICES = (60, 1000)
KEYS = ("t_ns", "order", "service")


@dataclass(frozen=True)
class Quantity:
    """A column of resources.parquet: its names in a plot and its readout, and the least value that fills the axis."""

    name: str
    label: str
    short: str
    least: float


QUANTITIES = (
    Quantity("run_delay_us", "waiting for a CPU, µs a sample", "waiting", 100),
    Quantity("throttled_us", "throttled by quota, µs a sample", "throttled", 100),
    Quantity("psi_cpu_some_us", "CPU pressure (PSI some), µs a sample", "pressure", 100),
    Quantity("cpu_percent", "CPU, % of one", "CPU", 5),
    Quantity("steal_percent", "stolen by the hypervisor, %", "steal", 1),
    Quantity("foreign_cpu_percent", "CPU of other programs, %", "foreign", 5),
    Quantity("involuntary_switches", "preempted, times a sample", "preempted", 5),
    Quantity("tcp_retransmits", "TCP retransmits a sample", "retransmits", 1),
    Quantity("sys_dropped", "messages the broker dropped, a sample", "dropped", 1),
)

Series = dict[str, Any]
"""Ready for JSON, as page/report.js reads it."""


def of(bundle: Bundle) -> list[Series]:
    """Return, for each cell with counted repetitions, its label and the repetitions' series."""
    rows = _causes(bundle)
    causes = {int(str(key[0])): of_order for key, of_order in rows.partition_by("order", as_dict=True).items()}
    counted = [repetition for repetition in bundle.repetitions if repetition.counted]
    slices = int(np.clip(POINTS // max(len(counted), 1), *SLICES))
    timelines = []
    for cell in bundle.cells:
        by_number = {r.repetition: r for r in counted if r.cell == cell.index}
        series = list(_of_cell(bundle, cell, by_number, causes, slices)) if by_number else []
        if series:
            timelines.append({"label": cell.label, "repetitions": series})
    return timelines


def quiet(bundle: Bundle, timelines: Sequence[Series]) -> list[str]:
    """Return what was watched but never above 0 in any repetition, named as in the readout."""
    watched = set(_causes(bundle).columns)
    seen = {name for cell in timelines for repetition in cell["repetitions"] for name in repetition["causes"]}
    return [quantity.short for quantity in QUANTITIES if quantity.name in watched - seen]


def services(timelines: Sequence[Series]) -> list[str]:
    """Return every service that has a series, sorted."""
    causes = (repetition["causes"] for cell in timelines for repetition in cell["repetitions"])
    return sorted({str(one["service"]) for by_quantity in causes for series in by_quantity.values() for one in series})


def _of_cell(
    bundle: Bundle, cell: Cell, repetitions: Mapping[int, Repetition], causes: Mapping[int, pl.DataFrame], slices: int
) -> Iterator[Series]:
    for _, repetition in sorted(repetitions.items()):
        rows = cycles.in_order(bundle.rows.of(cell.index, {repetition.repetition}))
        if rows.is_empty():
            continue
        took_us = rows[bundle.metrics[0].column].cast(pl.Int64).fill_null(cycles.MISSING).to_numpy()
        start_ns = int(rows["intended_ns"][0])
        due_us = (rows["intended_ns"].to_numpy() - start_ns) // 1000
        shown = _slowest(took_us, slices)
        series = _series(causes[repetition.order], start_ns) if repetition.order in causes else {}
        yield {
            "label": f"repetition {repetition.repetition}{'' if repetition.validity == 'valid' else ', noisy'}",
            "deadline_ms": cell.deadline_ms,
            "at": [int(due) for due in due_us[shown] // 1000],
            "t": [int(took) for took in took_us[shown]],
            "lost": [int(due) for due in due_us[took_us == cycles.MISSING][:slices] // 1000],
            "thinned": len(shown) < int((took_us != cycles.MISSING).sum()),
            "causes": series,
        }


def _slowest(took_us: Integers, slices: int) -> Integers:
    """Return indices of all answered cycles, or of the slowest in each of `slices` slices."""
    answered = np.flatnonzero(took_us != cycles.MISSING)
    if len(answered) <= slices:
        return answered
    parts = np.array_split(answered, slices)
    return np.array([part[np.argmax(took_us[part])] for part in parts])


def _causes(bundle: Bundle) -> pl.DataFrame:
    """Return resources.parquet with the quantities that are known here; empty where the run watched none."""
    path, files = bundle.folder / "resources.parquet", tables(bundle.folder, "resources")
    if not files:
        return pl.DataFrame(schema={"t_ns": pl.Int64, "order": pl.Int64, "service": pl.String})
    try:
        rows = pl.read_parquet(files, glob=False)
        known = [quantity.name for quantity in QUANTITIES if quantity.name in rows.columns]
        typed = [pl.col(name).cast(pl.Float64) for name in known]
        return rows.select(
            pl.col("t_ns").cast(pl.Int64), pl.col("order").cast(pl.Int64), pl.col("service").cast(pl.String), *typed
        )
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise BundleError(f"{path}: cut or damaged ({reason}); take an undamaged copy") from error


def _series(rows: pl.DataFrame, start_ns: int) -> dict[str, list[Series]]:
    """Return, by quantity, a series for each service in which it was ever above 0."""
    by_quantity: dict[str, list[Series]] = {}
    for (service,), of_service in rows.sort("t_ns").partition_by("service", as_dict=True, maintain_order=True).items():
        at = [(t_ns - start_ns) // 1_000_000 for t_ns in of_service["t_ns"].to_list()]
        for name in of_service.columns[len(KEYS) :]:
            values = [_rounded(value) for value in of_service[name].to_list()]
            if any(values):
                by_quantity.setdefault(name, []).append({"service": str(service), "at": at, "v": values})
    return {name: sorted(series, key=lambda one: str(one["service"])) for name, series in by_quantity.items()}


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.4g}")
