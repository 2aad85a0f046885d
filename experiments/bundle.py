# SPDX-License-Identifier: Apache-2.0
"""Writes the bundle (docs/bundle.md) so that a kill at any moment leaves a readable one."""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import functools
import hashlib
import json
import os
import resource
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from experiments import tidy
from experiments.errors import TestbedError
from experiments.families import Columns, Family

SCHEMA_VERSION = 2

_KINDS = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}

RESOURCES = pa.schema([
    ("t_ns", pa.int64()), ("order", pa.int64()), ("service", pa.string()),
    *((name, pa.float64()) for name in (
        "cpu_percent", "memory_bytes", "throttled_us", "run_delay_us", "voluntary_switches", "involuntary_switches",
        "psi_cpu_some_us", "steal_percent", "busy_percent", "tcp_retransmits", "sys_dropped",
    )),
])  # fmt: skip

PARTS = ".parts"
"""Where a run that has not ended keeps a file a repetition: rewriting all earlier ones each time would be quadratic."""

ROW_GROUP = 1_000_000

RESERVE = ".reserve"
RESERVE_BYTES = 4 << 20
"""Kept free from the start, so that a run which filled the disk can still say so."""


def utc_now() -> str:
    """ISO 8601 with microseconds."""
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def columns(family: Family[Any]) -> Columns:
    """Return the columns of samples.parquet: what every family's have, with its axes, metrics and further columns."""
    return {
        "scenario": str, "arm": str, **{axis.name: axis.kind for axis in family.axes},
        "repetition": int, "sequence": int, "warmup": bool, "intended_ns": int, "sent_ns": int, "received_ns": int,
        **{metric.column: int for metric in family.metrics}, "status": str, "cause": str, **family.columns,
    }  # fmt: skip


def typed(columns: Columns) -> pa.Schema:
    """Return the form of a table with these columns."""
    return pa.schema([(name, _KINDS[kind]) for name, kind in columns.items()])


class BundleWriter:
    """One run's folder. `facts` is bundle.json; change it, then `save`."""

    def __init__(self, results: Path, name: str, family: Family[Any], facts: dict[str, Any]) -> None:
        tables = {"samples": columns(family), **family.tables}
        self._tables = {"resources": RESOURCES} | {table: typed(kinds) for table, kinds in tables.items()}
        stamp = dt.datetime.now(dt.UTC).strftime("%Y%m%dT%H%M%SZ")
        self.folder = _create(results, f"{stamp}-{name}")
        self.facts: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION, "name": name, "status": "partial", "reason": "not ended",
            "started_utc": utc_now(), "ended_utc": None, **facts, "repetitions": [],
        }  # fmt: skip
        self._parts = self.folder / PARTS
        self._written = 0
        self._header = ""
        self._composed: list[str] = []
        try:
            self._begin(results)
        except OSError as error:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise TestbedError(f"{self.folder}: {error.strerror or error}; nothing was started") from None

    def _begin(self, results: Path) -> None:
        (self.folder / "logs").mkdir()
        self._parts.mkdir()
        with contextlib.suppress(OSError):  # where there is no room for it there may be for a small run
            if resource.getrlimit(resource.RLIMIT_FSIZE)[0] not in range(RESERVE_BYTES):
                (self.folder / RESERVE).write_bytes(bytes(RESERVE_BYTES))
        self.save()
        fresh = results / f".latest-{os.getpid()}"
        fresh.symlink_to(self.folder.name)
        fresh.replace(results / "latest")

    def add(
        self,
        entry: dict[str, Any],
        samples: list[dict[str, Any]],
        resources: Sequence[dict[str, Any]] = (),
        further: Mapping[str, Sequence[dict[str, Any]]] = MappingProxyType({}),
    ) -> None:
        """Append one repetition and what was measured in it; all is on disk when this returns.

        `further` has rows of the family's further tables.

        Raises OSError where the disk is full: the repetition is then in half of the room kept for the end, if it fits.
        """
        tables = {"samples": samples, "resources": [row | {"order": entry["order"]} for row in resources], **further}
        try:
            self._add(entry, tables)
        except OSError:
            with contextlib.suppress(OSError):
                os.truncate(self.folder / RESERVE, RESERVE_BYTES // 2)
            self._add(entry, tables)
            raise

    def _add(self, entry: dict[str, Any], tables: Mapping[str, Sequence[dict[str, Any]]]) -> None:
        repetitions = self.facts["repetitions"]
        if not repetitions or repetitions[-1] is not entry:
            for name, rows in tables.items():
                if rows or name == "samples":
                    table = pa.Table.from_pylist(rows, self._tables[name])
                    part = self._parts / f"{name}-{len(repetitions):06}.parquet"
                    _replace(part, functools.partial(pq.write_table, table, compression="zstd"))
            repetitions.append(entry)
        self.save()

    def add_compose(self, project: str) -> str:
        """Keep a Compose project as run, the same one once; returns its file: compose.yml, then compose-2.yml, …."""
        if project not in self._composed:
            self._composed.append(project)
            target = self.folder / _compose_file(len(self._composed))
            _replace(target, lambda scratch: scratch.write_text(project))
        return _compose_file(1 + self._composed.index(project))

    def save(self, *changed: dict[str, Any]) -> None:
        """Write what is new since the last time: repetitions added, those `changed`, and facts other than the plan."""
        repetitions = self.facts["repetitions"]
        again = [n for n, entry in enumerate(repetitions) if any(entry is one for one in changed)] if changed else []
        for number in {*again, *range(self._written, len(repetitions))}:
            _write_json(self._parts / f"repetition-{number:06}.json", repetitions[number])
        self._written = len(repetitions)
        header = json.dumps({name: value for name, value in self.facts.items() if name not in {"plan", "repetitions"}})
        if header != self._header:
            _write_json(self.folder / "bundle.json", self.facts | {"repetitions": []})
            self._header = header

    def close(self, status: str, reason: str | None) -> None:
        """Record how the run ended, join the parts, and seal the files with their checksums.

        What cannot be joined, for want of space, stays in parts, which are read as well; `status` is then not complete.
        Raises OSError where not even bundle.json can be written.
        """
        (self.folder / RESERVE).unlink(missing_ok=True)
        failed = tidy.each([(f"{name}.parquet", functools.partial(self._join, name)) for name in self._tables])
        if failed and reason is None:
            status, reason = "partial", failed[0]
        self.facts |= {"status": status, "reason": reason, "ended_utc": utc_now()}
        _write_json(self.folder / "bundle.json", self.facts)
        composed = [_compose_file(number) for number in range(1, max(len(self._composed), 1) + 1)]
        sums = "".join(
            f"{_checksum(path)}  {path.name}\n"
            for name in ("bundle.json", *(f"{table}.parquet" for table in self._tables), *composed)
            if (path := self.folder / name).exists()
        )
        if not failed:
            shutil.rmtree(self._parts, ignore_errors=True)
        _replace(self.folder / "SHA256SUMS", lambda scratch: scratch.write_text(sums))

    def _join(self, name: str) -> None:
        """All parts of a table in one file, a row group at a time; samples even where there are none."""
        target, parts = self.folder / f"{name}.parquet", sorted(self._parts.glob(f"{name}-*.parquet"))
        if parts or (name == "samples" and not target.exists()):
            _replace(target, lambda scratch: _concatenate(parts, self._tables[name], scratch))


def _compose_file(number: int) -> str:
    return "compose.yml" if number == 1 else f"compose-{number}.yml"


def _concatenate(parts: Sequence[Path], schema: pa.Schema, target: Path) -> None:
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        waiting, rows = [schema.empty_table()], 0
        for part in parts:
            waiting.append(pq.ParquetFile(part).read())
            rows += waiting[-1].num_rows
            if rows >= ROW_GROUP:
                writer.write_table(pa.concat_tables(waiting))
                waiting, rows = [], 0
        if waiting:
            writer.write_table(pa.concat_tables(waiting))


def _write_json(path: Path, value: dict[str, Any]) -> None:
    _replace(path, lambda scratch: scratch.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n"))


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    """Whole or not at all: written beside, then put in place. Raises OSError, which names the file."""
    scratch = path.with_name(f".{path.name}")
    try:
        write(scratch)
        scratch.replace(path)
    except OSError as error:
        scratch.unlink(missing_ok=True)
        why = os.strerror(error.errno) if error.errno else str(error)
        raise OSError(error.errno, why, str(path)) from None


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _create(results: Path, name: str) -> Path:
    """A folder that nobody has; raises TestbedError where there cannot be one."""
    latest = results / "latest"
    if results.exists() and not results.is_dir():
        raise TestbedError(f"{results} is no folder, and bundles go there; move it away")
    if latest.exists() and not latest.is_symlink():
        raise TestbedError(f"{latest} is not the link that we keep there; move it away")
    try:
        results.mkdir(parents=True, exist_ok=True)
        return _fresh(results, name)
    except OSError as error:
        raise TestbedError(f"{error.filename or results}: {error.strerror or error}; nothing was started") from None


def _fresh(results: Path, name: str) -> Path:
    for attempt in range(100):
        folder = results / (name if attempt == 0 else f"{name}-{attempt + 1}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(results / name))
