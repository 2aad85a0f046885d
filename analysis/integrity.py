# SPDX-License-Identifier: Apache-2.0
"""Whether a bundle agrees with itself: samples with bundle.json, counts with their sum, O with T − R.

Statistics are refused where it does not (`BundleError`); `verify` lists every finding.
"""

from collections.abc import Iterator

import polars as pl

from analysis.bundle import CELL_KEY, Bundle, BundleError, Repetition

STATUSES = ("ok", "late", "lost", "duplicate")
SILENT = ("no answer", "not sent")
"""Causes of a loss after which nothing was received; word of a board's failure is received, and is a loss too."""
COUNTED = ("offered", "ok", "late", "lost", "duplicate")


def check(bundle: Bundle) -> None:
    """Raises `BundleError` with the first finding, and how many there are."""
    try:
        found = list(findings(bundle))
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0]
        path = bundle.folder / "samples.parquet"
        raise BundleError(f"{path}: cut or damaged ({reason}); take an undamaged copy") from error
    if found:
        more = f" (and {len(found) - 1} more findings)" if len(found) > 1 else ""
        raise BundleError(f"{bundle.folder}: damaged: {found[0]}{more}; take an undamaged copy of the bundle")


def findings(bundle: Bundle) -> Iterator[str]:
    """One line for each thing that does not hold, with the first place where it does not."""
    yield from _plan(bundle)
    yield from _rows(bundle)
    yield from _repetitions(bundle)


def _plan(bundle: Bundle) -> Iterator[str]:
    keys = [tuple(getattr(cell, key) for key in CELL_KEY) for cell in bundle.cells]
    if len(set(keys)) < len(keys) or len({cell.index for cell in bundle.cells}) < len(keys):
        yield "bundle.json: two cells of the plan are the same"
    pairs = [(r.cell, r.repetition) for r in bundle.repetitions]
    if len(set(pairs)) < len(pairs):
        yield "bundle.json: two repetitions of one cell have the same number"
    if unknown := {r.cell for r in bundle.repetitions} - {cell.index for cell in bundle.cells}:
        yield f"bundle.json: repetitions of cell {min(unknown)}, which the plan does not have"
    if bundle.status == "complete" and (missing := set(bundle.due) - set(pairs)):
        cell, repetition = min(missing)
        yield f"bundle.json: complete, but planned repetitions are missing, first cell {cell}, repetition {repetition}"


def _rows(bundle: Bundle) -> Iterator[str]:
    """What must hold in every row."""
    status, answered = pl.col("status"), pl.col("status").is_in(["ok", "late", "duplicate"])
    t_us, r_us, o_us = pl.col("t_us"), pl.col("r_us"), pl.col("o_us")
    unexplained = pl.col("received_ns").is_not_null() & pl.col("cause").is_in(SILENT)
    elapsed_ns = pl.col("received_ns") - pl.col("sent_ns")
    broken = {
        f"status is not one of {', '.join(STATUSES)}": ~status.is_in(STATUSES).fill_null(value=False),
        "O is not T − R": ~o_us.eq_missing(t_us - r_us),
        "T is not received − sent": (1000 * t_us - elapsed_ns).abs() > 1000,
        "an answer without T": answered & t_us.is_null(),
        "a lost cycle with an answer": (status == "lost") & (t_us.is_not_null() | unexplained),
        "a negative latency": (t_us < 0) | (r_us < 0),
    }
    counts = bundle.samples.select(value.sum().alias(name) for name, value in broken.items())
    for name, count in counts.collect(engine="streaming").to_dicts()[0].items():
        if count:
            first = bundle.samples.filter(broken[name]).select(*CELL_KEY, "repetition", "sequence").first().collect()
            yield f"samples.parquet: {count:,} rows: {name}; first at {_place(first.to_dicts()[0])}"


def _repetitions(bundle: Bundle) -> Iterator[str]:
    """Each repetition of bundle.json against its rows, and no rows of a repetition that bundle.json does not know."""
    own = _counts(bundle)
    for repetition in bundle.repetitions:
        found = own.pop((repetition.cell, repetition.repetition), dict.fromkeys((*COUNTED, "cycles"), 0))
        yield from _repetition(repetition, found)
    if own and bundle.status == "complete":
        cell, number = min(own, key=lambda key: (key[0] is None, key))
        yield f"samples.parquet: rows of cell {cell}, repetition {number}, which bundle.json does not list"


def _repetition(repetition: Repetition, found: dict[str, int]) -> Iterator[str]:
    counts = repetition.counts
    if counts["offered"] != counts["ok"] + counts["late"] + counts["lost"]:
        yield f"bundle.json: {repetition.label}: offered {counts['offered']} is not ok + late + lost"
    if found["cycles"] != found["offered"]:
        yield (
            f"samples.parquet: {repetition.label}: {found['offered']} rows for {found['cycles']} cycles "
            "(each has exactly one row that is not duplicate)"
        )
    for name in COUNTED:
        if counts[name] != found[name]:
            yield f"{repetition.label}: bundle.json counts {counts[name]} {name}, samples.parquet {found[name]}"


def _counts(bundle: Bundle) -> dict[tuple[int | None, int], dict[str, int]]:
    """By cell (none where the plan does not have it) and repetition: rows by status, without warm-up, and cycles."""
    status = pl.col("status")
    rows = (
        bundle.keyed()
        .filter(~pl.col("warmup"))
        .group_by("cell", "repetition")
        .agg(
            *((status == name).sum().alias(name) for name in STATUSES),
            (status != "duplicate").sum().alias("offered"),
            pl.col("sequence").n_unique().alias("cycles"),
        )
        .collect(engine="streaming")
    )
    return {(row.pop("cell"), row.pop("repetition")): row for row in rows.to_dicts()}


def _place(row: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in row.items() if value != "")


def proofs(bundle: Bundle) -> Iterator[tuple[Repetition, str, str, bool | None]]:
    """(repetition, service, knob, held) for each knob of each counted repetition; held is none without a proof."""
    cells = {cell.index: cell for cell in bundle.cells}
    for repetition in bundle.repetitions:
        if repetition.counted and repetition.cell in cells:
            found = {(proof.service, proof.knob): proof.holds for proof in repetition.proofs}
            for service, knobs in cells[repetition.cell].knobs.items():
                for knob in knobs:
                    yield repetition, service, knob, found.get((service, knob))
