# SPDX-License-Identifier: Apache-2.0
"""Whether a bundle agrees with itself: samples with bundle.json, counts with their sum, latencies with each other.

Statistics are refused where it does not (`BundleError`); `verify` lists every finding.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import polars as pl

from analysis.reading.arrays import Integers
from analysis.reading.bundle import Bundle, BundleError, Repetition
from analysis.reading.rows import NOWHERE, STATUSES, Rows, conditions

COUNTED = ("offered", "ok", "late", "lost", "duplicate")


def check(bundle: Bundle) -> None:
    """Raise `BundleError` with the first finding and the number of others; do nothing where there are none."""
    try:
        all_findings = list(findings(bundle))
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0]
        path = bundle.folder / "samples.parquet"
        raise BundleError(f"{path}: cut or damaged ({reason}); take an undamaged copy") from error
    if all_findings:
        more = f" (and {len(all_findings) - 1} more findings)" if len(all_findings) > 1 else ""
        raise BundleError(f"{bundle.folder}: damaged: {all_findings[0]}{more}; take an undamaged copy of the bundle")


def findings(bundle: Bundle) -> Iterator[str]:
    """Yield a line for each condition that does not hold, with the first place where it does not."""
    yield from _plan(bundle)
    yield from _rows(bundle)
    yield from _repetitions(bundle)


def _plan(bundle: Bundle) -> Iterator[str]:
    keys = [cell.key for cell in bundle.cells]
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
    """Check the conditions that must hold in every row."""
    if bundle.rows.frame["holds"].all():
        return
    broken, places = conditions(bundle.metrics), (*bundle.family.key, "repetition", "sequence")
    counts = bundle.samples.select(value.sum().alias(name) for name, value in broken.items())
    for name, count in counts.collect(engine="streaming").to_dicts()[0].items():
        if count:
            first = bundle.samples.filter(broken[name]).select(places).first().collect()
            yield f"samples.parquet: {count:,} rows: {name}; first at {_place(first.to_dicts()[0])}"


def _repetitions(bundle: Bundle) -> Iterator[str]:
    """Check each repetition of bundle.json against its rows, and that no rows belong to any other repetition."""
    by_repetition = _counts(bundle.rows)
    for repetition in bundle.repetitions:
        row_counts = by_repetition.pop((repetition.cell, repetition.repetition), dict.fromkeys((*COUNTED, "cycles"), 0))
        yield from _repetition(repetition, row_counts)
    if by_repetition and bundle.status == "complete":
        cell, number = min(by_repetition)
        named = "a cell that the plan does not have" if cell == NOWHERE else f"cell {cell}"
        yield f"samples.parquet: rows of {named}, repetition {number}, which bundle.json does not list"


def _repetition(repetition: Repetition, row_counts: dict[str, int]) -> Iterator[str]:
    counts = repetition.counts
    if counts["offered"] != counts["ok"] + counts["late"] + counts["lost"]:
        yield f"bundle.json: {repetition.label}: offered {counts['offered']} is not ok + late + lost"
    if row_counts["cycles"] != row_counts["offered"]:
        yield (
            f"samples.parquet: {repetition.label}: {row_counts['offered']} rows for {row_counts['cycles']} cycles "
            "(each has exactly one row that is not duplicate)"
        )
    for name in COUNTED:
        if counts[name] != row_counts[name]:
            yield f"{repetition.label}: bundle.json counts {counts[name]} {name}, samples.parquet {row_counts[name]}"


def _counts(rows: Rows) -> dict[tuple[int, int], dict[str, int]]:
    """Return, by cell and repetition, the number of rows by status, without warm-up, and of cycles."""
    status, sequence = rows.frame["status"], rows.frame["sequence"].to_numpy()
    slices = {name: _sums((status == name).fill_null(value=False).to_numpy(), rows.starts) for name in STATUSES}
    higher, lower = (_sums(_against_former(sequence, rows.starts, how), rows.starts) for how in (np.greater, np.less))
    parts: dict[tuple[int, int], list[int]] = {}
    for at in np.flatnonzero(~rows.warmup).tolist():
        parts.setdefault((int(rows.cell[at]), int(rows.repetition[at])), []).append(at)
    by_repetition = {}
    for key, places in parts.items():
        counts = {name: int(slices[name][places].sum()) for name in STATUSES}
        if len(places) == 1 and not lower[places[0]]:
            cycles = 1 + int(higher[places[0]])
        else:
            cycles = len(np.unique(np.concatenate([sequence[rows.starts[at] : rows.ends[at]] for at in places])))
        by_repetition[key] = counts | {"offered": sum(counts.values()) - counts["duplicate"], "cycles": cycles}
    return by_repetition


def _against_former(values: Integers, starts: Integers, how: np.ufunc) -> npt.NDArray[np.bool_]:
    """Return (N,): `how` of each value and the one before it in its slice; false for a slice's first."""
    flags = np.zeros(len(values), dtype=np.bool_)
    flags[1:] = how(values[1:], values[:-1])
    flags[starts] = False
    return flags


def _sums(flags: npt.NDArray[np.bool_], starts: Integers) -> Integers:
    """Return (K,): how many flags are set in each slice."""
    return np.add.reduceat(flags, starts, dtype=np.int64) if len(starts) else np.zeros(0, dtype=np.int64)


def _place(row: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in row.items() if value != "")


def proofs(bundle: Bundle) -> Iterator[tuple[Repetition, str, str, bool | None]]:
    """Yield (repetition, service, knob, holds) for each knob of each counted repetition; None without a proof."""
    cells = {cell.index: cell for cell in bundle.cells}
    for repetition in bundle.repetitions:
        if repetition.counted and repetition.cell in cells:
            by_knob = {(proof.service, proof.knob): proof.holds for proof in repetition.proofs}
            for service, knobs in cells[repetition.cell].knobs.items():
                for knob in knobs:
                    yield repetition, service, knob, by_knob.get((service, knob))
