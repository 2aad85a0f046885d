# SPDX-License-Identifier: Apache-2.0
"""Reads a bundle: complete, partial or refused, of this schema version or an earlier one.

Whatever is wrong with a bundle ends as one `BundleError` of one line: where, what, and the remedy. `schema` knows what
bundle.json may hold; here it becomes the records that statistics start from.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import schema.bundle
from analysis.reading import rows
from analysis.reading.family import Axis, Family, Metric, Value
from analysis.reading.rows import Rows
from schema import bounds, reading
from schema.reading import REMEDY, UnreadableError
from schema.text import printable

Document = dict[str, Any]

COMMON_COLUMNS: Mapping[str, pl.DataType] = {
    "scenario": pl.String(),
    "arm": pl.String(),
    "repetition": pl.Int64(),
    "sequence": pl.Int64(),
    "warmup": pl.Boolean(),
    "intended_ns": pl.Int64(),
    "sent_ns": pl.Int64(),
    "received_ns": pl.Int64(),
    "status": pl.String(),
    "cause": pl.String(),
}
"""Of `bounds.SAMPLE_COLUMNS`, what type each is."""

PARTS = reading.PARTS

ROW_BYTES, TABLE_BYTES = 400, 16 << 20
"""What a table may take in memory by its own account: so much a row, and so much in any case."""


class BundleError(Exception):
    """A bundle cannot be read; the message is one line: where, what, and the remedy."""


@dataclass(frozen=True)
class Cell:
    """Scenario × a value of each axis (× arm): what the repetitions of one row of the table share.

    `values` are in the order of the family's axes; `deadline_ms` counts from the time that a request was due.
    """

    family: Family
    index: int
    scenario: str
    arm: str
    values: tuple[Value, ...]
    board: str | None
    contention: str | None
    knobs: Mapping[str, Mapping[str, str]]
    messages: int
    timeout_ms: int
    deadline_ms: int
    broker: str | None = None
    """Its kind; none in a bundle made before it was recorded."""
    session: str = "clean"
    fault: str | None = None
    """What breaks in each of its repetitions."""

    @property
    def label(self) -> str:
        """The conditions that distinguish this cell: `scenario 1, 20 ms, QoS 0, fifo`."""
        return ", ".join([f"scenario {self.scenario}", *self.texts, *([self.arm] if self.arm else [])])

    @property
    def key(self) -> tuple[Value, ...]:
        """Its value of each column of the family's `key`."""
        return (self.scenario, self.arm, *self.values)

    @property
    def texts(self) -> list[str]:
        """Its value on each axis, in as few words as possible: `20 ms`."""
        return [axis.text(value) for axis, value in zip(self.family.axes, self.values, strict=True)]

    @property
    def titles(self) -> list[str]:
        """Its value on each axis, worded for a title."""
        return [axis.title(value) for axis, value in zip(self.family.axes, self.values, strict=True)]

    @property
    def entries(self) -> tuple[str, ...]:
        """Its value on each axis, worded for columns under the axes' headings."""
        return tuple(axis.entry(value) for axis, value in zip(self.family.axes, self.values, strict=True))

    def on(self, column: str) -> Value:
        """Return its value in a column of `key`; raise KeyError where the family has no such column."""
        return dict(zip(self.family.key, self.key, strict=True))[column]


@dataclass(frozen=True)
class Proof:
    """A knob as read back from the kernel while a repetition ran."""

    service: str
    knob: str
    requested: str
    holds: bool
    observed: str


@dataclass(frozen=True)
class Fault:
    """What broke in a repetition; when it was injected, read back as in force, and ended: ns of the client's clock."""

    kind: str
    injected_ns: int
    in_force_ns: int
    ended_ns: int | None
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Repetition:
    """One pass over a cell, as `bundle.json` has it."""

    cell: int
    repetition: int
    order: int
    counted: bool
    validity: str
    reasons: tuple[str, ...]
    counts: Mapping[str, int]
    proofs: tuple[Proof, ...]
    noise: Mapping[str, float]
    fault: Fault | None = None
    """None where nothing broke, or nothing shows that it did."""

    @property
    def label(self) -> str:
        """Its name in findings and warnings."""
        return f"cell {self.cell}, repetition {self.repetition}"


@dataclass(frozen=True)
class Bundle:
    """A bundle as read: `document` is bundle.json, upgraded; `samples` are scanned only when asked for.

    `order` is (cell, repetition) as planned, `floor_us` the median of a TCP echo on the same stand.
    """

    folder: Path
    document: Document
    family: Family
    cells: tuple[Cell, ...]
    repetitions: tuple[Repetition, ...]
    order: tuple[tuple[int, int], ...]
    floor_us: float | None
    samples: pl.LazyFrame

    @property
    def name(self) -> str:
        """The run's name, also the suffix of its folder."""
        return str(self.document["name"])

    @property
    def status(self) -> str:
        """One of `complete`, `partial`, `refused`."""
        return str(self.document["status"])

    @property
    def plan(self) -> Document:
        """What was to be run."""
        plan: Document = self.document["plan"]
        return plan

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes that its cells are swept over."""
        return self.family.axes

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics of its samples, the round trip first."""
        return self.family.metrics

    @property
    def round_trip(self) -> str:
        """The first metric's name."""
        return self.family.round_trip

    @property
    def repetitions_due(self) -> int:
        """The number of repetitions of each cell in a complete run: as planned, or up to the look that ended it."""
        looks = self.document.get("looks") or []
        return int(looks[-1]["repetitions"] if looks and looks[-1]["stop"] else self.plan["repetitions"])

    @property
    def due(self) -> list[tuple[int, int]]:
        """The part of `order` that a complete run has."""
        return [(cell, repetition) for cell, repetition in self.order if repetition <= self.repetitions_due]

    @cached_property
    def rows(self) -> Rows:
        """The samples, read when first asked for and kept."""
        return rows.read(self.samples, self.family, {cell.index: cell.key for cell in self.cells})

    def counted(self, cell: Cell) -> pl.DataFrame:
        """Return the rows of the cell's counted repetitions, as in `Rows`: without warm-up, with duplicate answers."""
        return self.rows.of(cell.index, {r.repetition for r in self.repetitions if r.counted and r.cell == cell.index})


def read(folder: Path) -> Bundle:
    """Return the bundle in `folder`; raise `BundleError` where there is none or it is damaged."""
    try:
        document = reading.document(folder)
        checked = reading.checked(folder / "bundle.json", document)
    except UnreadableError as error:
        raise BundleError(str(error)) from error
    tables(folder, "samples", _most_rows(checked))
    family = _family(checked)
    cells = tuple(_cell(cell, checked.plan, family) for cell in checked.plan.cells)
    kinds = _kinds(family, cells)
    return Bundle(
        folder=folder,
        document=document | {name: _folded(document.get(name)) for name in ("reason", "notice")},
        family=family,
        cells=cells,
        repetitions=tuple(_repetition(entry) for entry in checked.repetitions),
        order=tuple((cell, repetition) for cell, repetition in checked.plan.order),
        floor_us=checked.floor.tcp_echo_t_us.p50 if checked.floor else None,
        samples=_typed(folder / "samples.parquet", _scan_samples(folder, kinds), kinds),
    )


def tables(folder: Path, name: str, most: int = bounds.SAMPLES) -> list[Path]:
    """Return the files of a table (`samples`, `resources`, `path`): one, or one a repetition if the run did not end.

    Raise `BundleError` where they have more rows, or more bytes once unpacked, than a run can have left.
    """
    whole = folder / f"{name}.parquet"
    files = [whole] if whole.exists() else sorted((folder / PARTS).glob(f"{name}-*.parquet"))
    rows, size = 0, 0
    for path in files:
        try:
            facts = pq.read_metadata(path)
            rows += facts.num_rows
            size += sum(facts.row_group(i).total_byte_size for i in range(facts.num_row_groups))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise BundleError(f"{path}: cut or damaged ({first_line(error)}); {REMEDY}") from error
    if rows > most:
        raise BundleError(f"{whole}: {rows:,} rows, where the plan gives at most {most:,}; {REMEDY}")
    if size > ROW_BYTES * rows + TABLE_BYTES:
        raise BundleError(f"{whole}: {size >> 20:,} MiB once unpacked, too much for {rows:,} rows; {REMEDY}")
    return files


def _most_rows(checked: schema.bundle.Bundle) -> int:
    """Return the row limit: four rows a cycle, and one repetition more than bundle.json lists."""
    plan = checked.plan
    messages = max((cell.messages or plan.messages for cell in plan.cells), default=0)
    repetitions = 1 + max(len(plan.order), len(checked.repetitions))
    return min(4 * repetitions * (messages + plan.warmup), bounds.SAMPLES)


def _family(checked: schema.bundle.Bundle) -> Family:
    return Family(
        checked.family,
        tuple(Axis(axis.name, axis.words, axis.short) for axis in checked.axes),
        tuple(_metric(metric) for metric in checked.metrics),
    )


def _metric(entry: schema.bundle.Metric) -> Metric:
    difference = (entry.difference[0], entry.difference[1]) if entry.difference else None
    return Metric(entry.name, entry.column, entry.words, difference, entry.answered_only)


def _kinds(family: Family, cells: Sequence[Cell]) -> dict[str, pl.DataType]:
    """Return the columns of the family's samples with their types; an axis has whole numbers, or names."""
    named = {axis.name for at, axis in enumerate(family.axes) if any(isinstance(c.values[at], str) for c in cells)}
    axes = {axis.name: pl.String() if axis.name in named else pl.Int64() for axis in family.axes}
    return {**COMMON_COLUMNS, **axes, **{metric.column: pl.Int64() for metric in family.metrics}}


def _scan_samples(folder: Path, kinds: Mapping[str, pl.DataType]) -> pl.LazyFrame:
    """Return the samples as a lazy frame, empty where a run ended before its first repetition."""
    path, files = folder / "samples.parquet", tables(folder, "samples")
    if not files:
        return pl.LazyFrame(schema=dict(kinds))
    try:
        samples = pl.scan_parquet(files, glob=False)
        samples.collect_schema()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise BundleError(f"{path}: cut or damaged ({first_line(error)}); {REMEDY}") from error
    return samples


def _cell(entry: schema.bundle.Cell, plan: schema.bundle.Plan, family: Family) -> Cell:
    timeout_ms = plan.timeout_ms if entry.timeout_ms is None else entry.timeout_ms
    return Cell(
        family=family,
        index=entry.cell,
        scenario=entry.scenario,
        arm=entry.arm,
        values=tuple(entry.on(axis.name) for axis in family.axes),
        board=entry.board,
        contention=entry.contention,
        knobs=entry.knobs,
        messages=plan.messages if entry.messages is None else entry.messages,
        timeout_ms=timeout_ms,
        # An answer that comes after the next request was due is late; where none is due, one that is given up.
        deadline_ms=plan.deadline_ms or entry.interval_ms or timeout_ms,
        broker=entry.broker,
        session=entry.session,
        fault=entry.fault,
    )


def _repetition(entry: schema.bundle.Repetition) -> Repetition:
    return Repetition(
        cell=entry.cell,
        repetition=entry.repetition,
        order=entry.order,
        counted=entry.counted,
        validity=entry.validity,
        reasons=tuple(folded(reason) for reason in entry.reasons),
        counts=entry.counts.model_dump(),
        proofs=tuple(_proof(proof) for proof in entry.proofs or ()),
        noise=_noise(entry.noise) if entry.noise else {},
        fault=_fault(entry.fault) if entry.fault else None,
    )


def _fault(entry: schema.bundle.Fault) -> Fault | None:
    """Return a fault with its proof; None without one."""
    proved = entry.evidence and all(each.holds for each in entry.evidence) and entry.error is None
    if not proved or entry.injected_ns is None or entry.in_force_ns is None:
        return None
    evidence = tuple(f"{each.what}: {each.read}" for each in entry.evidence)
    return Fault(entry.kind, entry.injected_ns, entry.in_force_ns, entry.ended_ns, evidence)


def _noise(entry: schema.bundle.Noise) -> dict[str, float]:
    """Return what disturbed a repetition: steal and foreign CPU in %, the sender's lateness (99th percentile) in µs."""
    values = {
        "steal_percent": entry.steal_percent,
        "foreign_cpu_percent": entry.foreign_cpu_percent,
        "lateness_p99_us": entry.lateness_us.p99 if entry.lateness_us else None,
    }
    return {name: value for name, value in values.items() if value is not None}


def _proof(entry: schema.bundle.Proof) -> Proof:
    observed = json.dumps(entry.observed, ensure_ascii=False)
    return Proof(entry.service, entry.knob, str(entry.requested), entry.holds, observed)


def folded(text: str) -> str:
    """Return free text on one line, with printable characters only."""
    return printable(" ".join(text.split()))


def _folded(text: Any) -> str | None:
    return None if text is None else folded(str(text))


def _typed(path: Path, samples: pl.LazyFrame, kinds: Mapping[str, pl.DataType]) -> pl.LazyFrame:
    """Return the samples cast to the documented types; dictionaries and narrower integers are accepted."""
    column_types = samples.collect_schema()
    for name, kind in kinds.items():
        if name not in column_types:
            raise BundleError(f"{path}: column {name} is missing; see docs/bundle.md for the format")
        if not _same_kind(column_types[name], kind):
            raise BundleError(
                f"{path}: column {name} is {column_types[name]}, not {kind}; see docs/bundle.md for the format"
            )
    return samples.select(pl.col(name).cast(kind) for name, kind in kinds.items())


def _same_kind(actual: pl.DataType, wanted: pl.DataType) -> bool:
    if wanted == pl.String():
        return actual in {pl.String, pl.Categorical, pl.Enum, pl.Null}
    if wanted.is_integer():
        return actual.is_integer() or actual == pl.Null
    return actual == wanted


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, printable."""
    return printable((str(error) or type(error).__name__).splitlines()[0])
