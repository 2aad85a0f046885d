# SPDX-License-Identifier: Apache-2.0
"""Whether a bundle is what its run left behind, and whether its tables and figures follow from its samples.

Every finding is one line that says where and what. A bundle verifies when there are none.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from analysis.reading import checksums, files, integrity
from analysis.reading.bundle import Bundle, BundleError, read
from analysis.showing import derived
from analysis.statistics import per_cell

SUMS = "SHA256SUMS"
SEALED = ("bundle.json", "samples.parquet")


@dataclass(frozen=True)
class Report:
    """The findings of a verification, and the checks that held."""

    findings: tuple[str, ...]
    held: tuple[str, ...]


def verify(folder: Path) -> Report:
    """Check everything that can still be checked; raise `BundleError` only where `folder` is no bundle at all."""
    if not (folder / "bundle.json").is_file():
        read(folder)
    try:
        files.require_plain(folder)
    except BundleError as error:
        return Report((str(error),), ())
    findings, held = list(_sums(folder)), []
    if not findings:
        held.append(f"{SUMS} holds for {len(checksums.listed(folder / SUMS))} files")
    try:
        bundle = read(folder)
        damage = list(_integrity(bundle))
        broken = [*damage, *_repetitions(bundle), *_proofs(bundle)]
        derivation = [] if damage else list(_derivation(bundle))
    except BundleError as error:
        return Report((*findings, str(error)), tuple(held))
    if not broken:
        counted = sum(repetition.counted for repetition in bundle.repetitions)
        formulas = [metric.formula for metric in bundle.metrics if metric.difference]
        held.append(f"{counted} counted repetitions: {', '.join(['counts add up', *formulas, 'proofs hold'])}")
    if not damage and not derivation:
        held.append(_derived_line(folder))
    return Report((*findings, *broken, *derivation), tuple(held))


def _sums(folder: Path) -> Iterator[str]:
    """Check that every file that the runner sealed is there and unchanged, and that all that matters is sealed."""
    path = folder / SUMS
    if not path.is_file():
        yield f"{SUMS}: missing: the run did not end normally, or it was removed"
        return
    listed = checksums.listed(path)
    yield from (f"{SUMS}: does not list {name}" for name in SEALED if name not in listed and (folder / name).exists())
    yield from checksums.findings(path)


def _integrity(bundle: Bundle) -> Iterator[str]:
    try:
        yield from integrity.findings(bundle)
    except (pl.exceptions.PolarsError, OSError) as error:
        yield f"samples.parquet: cut or damaged ({str(error).splitlines()[0]})"


def _repetitions(bundle: Bundle) -> Iterator[str]:
    """Check that only valid or noisy repetitions count, and each planned one once, itself or by a re-run."""
    if bundle.status != "complete":
        yield f"bundle.json: the run is {bundle.status}: {bundle.document.get('reason') or 'ended early'}"
    for repetition in bundle.repetitions:
        if repetition.counted and repetition.validity not in {"valid", "noisy"}:
            yield f"bundle.json: {repetition.label}: {repetition.validity}, yet counted"
    if bundle.status == "complete":
        for cell in bundle.cells:
            counted = sum(r.counted for r in bundle.repetitions if r.cell == cell.index)
            if counted < (planned := bundle.repetitions_due):
                yield f"bundle.json: {cell.label}: {counted} of {planned} planned repetitions are counted"


def _proofs(bundle: Bundle) -> Iterator[str]:
    """Check that each knob of each counted repetition was read back as requested."""
    lacking: dict[str, list[str]] = {}
    for repetition, service, knob, holds in integrity.proofs(bundle):
        if not holds:
            what = "has no proof" if holds is None else "did not hold, yet is counted"
            lacking.setdefault(f"{knob} on {service} {what}", []).append(repetition.label)
    for what, where in lacking.items():
        yield f"bundle.json: {what} in {len(where)} repetitions, first {where[0]}"


def _derivation(bundle: Bundle) -> Iterator[str]:
    """Check that tables and figures, derived again in a folder of their own, are the bundle's byte for byte."""
    sums = bundle.folder / derived.SUMS
    changed = list(checksums.findings(sums)) if sums.is_file() else []
    yield from changed
    with tempfile.TemporaryDirectory() as place:
        again = Path(place)
        derived.write(bundle, per_cell.summarise(bundle), again)
        different = [name for name in derived.names(again) if _differs(bundle.folder / name, again / name)]
        yield from (f"{name}: not what the samples give" for name in different)
        if different and sums.is_file() and not changed:
            yield f"{derived.SUMS} holds, so they were made by other versions than these: {derived.versions()}"
        for name in sorted(set(derived.names(bundle.folder)) - set(derived.names(again))):
            yield f"{name}: does not follow from the samples"


def _differs(present: Path, again: Path) -> bool:
    return present.is_file() and present.read_bytes() != again.read_bytes()


def _derived_line(folder: Path) -> str:
    names = derived.names(folder)
    return f"{len(names)} derived files made again, byte for byte" if names else "no derived files yet to make again"
