# SPDX-License-Identifier: Apache-2.0
"""How late the instrument itself was, and its floor: the line that stands under every table of latencies."""

import polars as pl

from analysis.bundle import Bundle
from analysis.findings import rough

LATE_US = 1000
"""A request that left later than this after its time counts as late."""


def line(bundle: Bundle) -> str:
    """`Instrument: …`: the lateness of the sends of counted repetitions, and the median of a TCP echo."""
    floor = (
        f"floor {rough(bundle.floor_us)} ms (median of a TCP echo on the same stand)"
        if bundle.floor_us
        else ("floor not measured")
    )
    late = _lateness(bundle)
    return f"Instrument: {late}; {floor}." if late else f"Instrument: {floor}."


def _lateness(bundle: Bundle) -> str:
    rows = bundle.samples.filter(~pl.col("warmup"))
    if bundle.status != "complete" or not all(r.counted for r in bundle.repetitions):
        counted = [(r.cell, r.repetition) for r in bundle.repetitions if r.counted]
        keys = pl.LazyFrame(counted, schema={"cell": pl.Int64, "repetition": pl.Int64}, orient="row")
        rows = bundle.keyed().filter(~pl.col("warmup")).join(keys, on=["cell", "repetition"], how="semi")
    late_us = ((pl.col("sent_ns") - pl.col("intended_ns")) // 1000).cast(pl.Int32, strict=False)
    found = rows.select(
        p99=late_us.quantile(0.99, "higher"), late=(late_us > LATE_US).mean(), sent=late_us.count()
    ).collect(engine="streaming")
    p99, late, sent = found.row(0)
    if not sent:
        return ""
    share = f"{100 * late:.2g} % later than {LATE_US / 1000:g} ms"
    return f"99 % of the sends left within {rough(p99)} ms of their time, {share}"
