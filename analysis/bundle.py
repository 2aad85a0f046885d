# SPDX-License-Identifier: Apache-2.0
"""Reads a bundle: complete, partial or refused, of this schema version or an earlier one.

Whatever is wrong with a bundle ends as one `BundleError` of one line: where, what, and the remedy.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

SCHEMA_VERSION = 1

Document = dict[str, Any]

UPGRADES: Mapping[int, Callable[[Document, pl.LazyFrame], tuple[Document, pl.LazyFrame]]] = {}
"""From each earlier schema version to the one after it: (bundle.json, samples) → the same, one version later."""

SAMPLE_COLUMNS: Mapping[str, pl.DataType] = {
    "scenario": pl.String(),
    "arm": pl.String(),
    "interval_ms": pl.Int64(),
    "qos": pl.Int64(),
    "repetition": pl.Int64(),
    "sequence": pl.Int64(),
    "warmup": pl.Boolean(),
    "intended_ns": pl.Int64(),
    "sent_ns": pl.Int64(),
    "received_ns": pl.Int64(),
    "t_us": pl.Int64(),
    "r_us": pl.Int64(),
    "o_us": pl.Int64(),
    "status": pl.String(),
    "cause": pl.String(),
    "board": pl.String(),
}

PARTS = ".parts"
"""Where a run that was killed left each repetition in files of its own."""

STATUSES = ("complete", "partial", "refused")

KINDS: Mapping[str, type | tuple[type, ...]] = {
    "name": str,
    "started_utc": str,
    "placement": str,
    "notice": (str, type(None)),
    "host": dict,
    "images": dict,
    "engine": (dict, type(None)),
    "git": (dict, type(None)),
    "command": list,
}

CELL_KEY = ("scenario", "arm", "interval_ms", "qos")


class BundleError(Exception):
    """A bundle that cannot be read: one line that says where, what, and the remedy."""


@dataclass(frozen=True)
class Cell:
    """Scenario × interval × QoS (× arm): what the repetitions of one row of the table share."""

    index: int
    scenario: str
    arm: str
    interval_ms: int
    qos: int
    board: str
    contention: str | None
    knobs: Mapping[str, Mapping[str, str]]
    messages: int
    broker: str | None = None
    """Its kind; none in a bundle made before it was recorded."""

    @property
    def label(self) -> str:
        """What tells this cell from the others: `scenario 1, 20 ms, QoS 0, fifo`."""
        arm = f", {self.arm}" if self.arm else ""
        return f"scenario {self.scenario}, {self.interval_ms} ms, QoS {self.qos}{arm}"


@dataclass(frozen=True)
class Proof:
    """A knob as the kernel told it while a repetition ran."""

    service: str
    knob: str
    requested: str
    holds: bool
    observed: str


@dataclass(frozen=True)
class Repetition:
    """One pass over a cell, as `bundle.json` tells it."""

    cell: int
    repetition: int
    order: int
    counted: bool
    validity: str
    reasons: tuple[str, ...]
    counts: Mapping[str, int]
    proofs: tuple[Proof, ...]
    noise: Mapping[str, float]

    @property
    def label(self) -> str:
        """How findings and warnings name it."""
        return f"cell {self.cell}, repetition {self.repetition}"


@dataclass(frozen=True)
class Bundle:
    """A bundle as read: `document` is bundle.json, upgraded; `samples` are scanned only when asked for.

    `order` is (cell, repetition) as planned, `floor_us` the median of a TCP echo on the same stand.
    """

    folder: Path
    document: Document
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

    def deadline_ms(self, cell: Cell) -> int:
        """The plan's deadline, or the interval: an answer later than that comes after the next request."""
        deadline_ms = self.plan.get("deadline_ms")
        return cell.interval_ms if deadline_ms is None else int(deadline_ms)

    def keyed(self) -> pl.LazyFrame:
        """Every row with `cell`, the cell's index, in place of its four columns; null where the plan lacks it."""
        columns = {key: [getattr(cell, key) for cell in self.cells] for key in CELL_KEY}
        schema = {**{key: SAMPLE_COLUMNS[key] for key in CELL_KEY}, "cell": pl.Int64()}
        cells = pl.LazyFrame({**columns, "cell": [cell.index for cell in self.cells]}, schema=schema)
        return self.samples.join(cells, on=list(CELL_KEY), how="left").drop(CELL_KEY)


def read(folder: Path) -> Bundle:
    """The bundle in `folder`; raises `BundleError` when it is not one or is damaged."""
    document = _read_document(folder)
    samples = _scan_samples(folder)
    document, samples = _upgrade(folder, document, samples)
    try:
        cells = tuple(_cell(entry, document["plan"]) for entry in document["plan"]["cells"])
        repetitions = tuple(_repetition(entry) for entry in document["repetitions"])
        order, floor_us = _order(document["plan"].get("order", [])), _floor_us(document)
        _require(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BundleError(f"{folder / 'bundle.json'}: {_explain(error)}; see docs/bundle.md for the format") from error
    typed = _typed(folder / "samples.parquet", samples)
    return Bundle(folder, document, cells, repetitions, order, floor_us, typed)


def _read_document(folder: Path) -> Document:
    path = folder / "bundle.json"
    if not folder.is_dir():
        raise BundleError(f"{folder}: no such folder; give the folder of a run, for example results/latest")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BundleError(f"{folder}: holds no bundle.json; give the folder of a run, e.g. results/latest") from None
    except (OSError, ValueError) as error:
        raise BundleError(f"{path}: not readable as JSON ({error}); take an undamaged copy of the bundle") from error
    if not isinstance(document, dict):
        raise BundleError(f"{path}: holds a {type(document).__name__}, not an object; take an undamaged copy")
    if (parts := sorted((folder / PARTS).glob("repetition-*.json"))) and document.get("ended_utc") is None:
        document["repetitions"] = [_read_part(part) for part in parts]
    return document


def _read_part(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BundleError(f"{path}: not readable as JSON ({error}); take an undamaged copy of the bundle") from error


def tables(folder: Path, name: str) -> list[Path]:
    """The files of one table (`samples`, `resources`, `path`): one, or a part a repetition where it did not end."""
    whole = folder / f"{name}.parquet"
    return [whole] if whole.exists() else sorted((folder / PARTS).glob(f"{name}-*.parquet"))


def _scan_samples(folder: Path) -> pl.LazyFrame:
    """The samples, unread; none at all where a run ended before its first repetition."""
    path, files = folder / "samples.parquet", tables(folder, "samples")
    if not files:
        return pl.LazyFrame(schema=dict(SAMPLE_COLUMNS))
    try:
        samples = pl.scan_parquet(files, glob=False)
        samples.collect_schema()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise BundleError(f"{path}: cut or damaged ({_first_line(error)}); take an undamaged copy") from error
    return samples


def _upgrade(folder: Path, document: Document, samples: pl.LazyFrame) -> tuple[Document, pl.LazyFrame]:
    path = folder / "bundle.json"
    version = document.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise BundleError(f"{path}: schema_version is {version!r}, not a whole number; take an undamaged copy")
    if version > SCHEMA_VERSION:
        raise BundleError(
            f"{path}: schema_version {version} is newer than {SCHEMA_VERSION}, the last one known here; "
            "update this checkout"
        )
    while version < SCHEMA_VERSION:
        if version not in UPGRADES:
            raise BundleError(f"{path}: schema_version {version} is unknown; known are up to {SCHEMA_VERSION}")
        document, samples = UPGRADES[version](document, samples)
        version += 1
    return document, samples


def _cell(entry: Document, plan: Document) -> Cell:
    knobs = {str(service): {k: str(v) for k, v in knobs.items()} for service, knobs in entry["knobs"].items()}
    contention = entry["contention"]
    return Cell(
        index=_whole(entry, "cell"),
        scenario=str(entry["scenario"]),
        arm=str(entry["arm"]),
        interval_ms=_whole(entry, "interval_ms"),
        qos=_whole(entry, "qos"),
        board=str(entry["board"]),
        contention=None if contention is None else str(contention),
        knobs=knobs,
        messages=_whole(entry if "messages" in entry else plan, "messages"),
        broker=None if entry.get("broker") is None else str(entry["broker"]),
    )


def _repetition(entry: Document) -> Repetition:
    counts = entry["counts"]
    return Repetition(
        cell=_whole(entry, "cell"),
        repetition=_whole(entry, "repetition"),
        order=_whole(entry, "order"),
        counted=bool(entry["counted"]),
        validity=str(entry["validity"]),
        reasons=tuple(str(reason) for reason in entry["reasons"]),
        counts={name: _whole(counts, name) for name in ("offered", "ok", "late", "lost", "duplicate")},
        proofs=tuple(_proof(proof) for proof in entry.get("proofs") or ()),
        noise={name: float(value) for name, value in _noise(entry).items() if value is not None},
    )


def _noise(entry: Document) -> Document:
    """What disturbed the repetition: steal and foreign CPU in %, the sender's lateness (99th percentile) in µs."""
    noise = entry.get("noise") or {}
    lateness = noise.get("lateness_us") or {}
    return {
        "steal_percent": noise.get("steal_percent"),
        "foreign_cpu_percent": noise.get("foreign_cpu_percent"),
        "lateness_p99_us": lateness.get("p99"),
    }


def _proof(entry: Document) -> Proof:
    observed = json.dumps(entry.get("observed"), ensure_ascii=False)
    return Proof(
        str(entry["service"]), str(entry["knob"]), str(entry.get("requested")), entry["holds"] is True, observed
    )


def _order(pairs: list[list[int]]) -> tuple[tuple[int, int], ...]:
    if not all(isinstance(pair, list) and [type(number) for number in pair] == [int, int] for pair in pairs):
        raise TypeError("plan.order is not a list of (cell, repetition)")
    return tuple((cell, repetition) for cell, repetition in pairs)


def _floor_us(document: Document) -> float | None:
    floor = document.get("floor")
    return float(floor["tcp_echo_t_us"]["p50"]) if floor else None


def _require(document: Document) -> None:
    """Raises `KeyError`, `TypeError` or `ValueError` where bundle.json lacks what every reader needs."""
    if document["status"] not in STATUSES:
        raise ValueError(f"status is {document['status']!r}; allowed: {', '.join(STATUSES)}")
    for name in ("seed", "messages", "repetitions", "timeout_ms"):
        _whole(document["plan"], name)
    if document["plan"].get("deadline_ms") is not None:
        _whole(document["plan"], "deadline_ms")
    for name, kind in KINDS.items():
        if name not in document:
            raise KeyError(name)
        if not isinstance(document[name], kind):
            raise TypeError(f"{name} is {document[name]!r}, which it cannot be")
    if not all(isinstance(image, dict) for image in document["images"].values()):
        raise TypeError("images is not an object of objects")


def _whole(entry: Document, name: str) -> int:
    value = entry[name]
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}, not a whole number")
    if not 0 <= value < 1 << 63:
        raise ValueError(f"{name} is {value}, which it cannot be")
    return value


def _typed(path: Path, samples: pl.LazyFrame) -> pl.LazyFrame:
    """The samples' columns in the documented types; other writers' dictionaries and narrower integers are welcome."""
    schema = samples.collect_schema()
    for name, kind in SAMPLE_COLUMNS.items():
        if name not in schema:
            raise BundleError(f"{path}: column {name} is missing; see docs/bundle.md for the format")
        if not _same_family(schema[name], kind):
            raise BundleError(f"{path}: column {name} is {schema[name]}, not {kind}; see docs/bundle.md for the format")
    return samples.select(pl.col(name).cast(kind) for name, kind in SAMPLE_COLUMNS.items())


def _same_family(found: pl.DataType, wanted: pl.DataType) -> bool:
    if wanted == pl.String():
        return found in {pl.String, pl.Categorical, pl.Enum, pl.Null}
    if wanted.is_integer():
        return found.is_integer() or found == pl.Null
    return found == wanted


def _explain(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else _first_line(error)


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
