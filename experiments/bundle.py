# SPDX-License-Identifier: Apache-2.0
"""Writes the bundle (docs/bundle.md) so that a kill at any moment leaves a readable one."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from experiments import path

SCHEMA_VERSION = 1

SAMPLES = pa.schema([
    ("scenario", pa.string()), ("arm", pa.string()), ("interval_ms", pa.int64()), ("qos", pa.int64()),
    ("repetition", pa.int64()), ("sequence", pa.int64()), ("warmup", pa.bool_()),
    ("intended_ns", pa.int64()), ("sent_ns", pa.int64()), ("received_ns", pa.int64()),
    ("t_us", pa.int64()), ("r_us", pa.int64()), ("o_us", pa.int64()),
    ("status", pa.string()), ("cause", pa.string()), ("board", pa.string()),
])  # fmt: skip

RESOURCES = pa.schema([
    ("t_ns", pa.int64()), ("order", pa.int64()), ("service", pa.string()),
    *((name, pa.float64()) for name in (
        "cpu_percent", "memory_bytes", "throttled_us", "run_delay_us", "voluntary_switches", "involuntary_switches",
        "psi_cpu_some_us", "steal_percent", "busy_percent", "tcp_retransmits", "sys_dropped",
    )),
])  # fmt: skip

PATH = pa.schema([
    ("scenario", pa.string()), ("arm", pa.string()), ("interval_ms", pa.int64()), ("qos", pa.int64()),
    ("repetition", pa.int64()), ("sequence", pa.int64()), ("warmup", pa.bool_()),
    *((name, pa.float64()) for name in path.PARTS), ("o_us", pa.int64()),
])  # fmt: skip

_CHECKED = ("bundle.json", "samples.parquet", "resources.parquet", "path.parquet", "compose.yml")


def utc_now() -> str:
    """ISO 8601 with microseconds."""
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class BundleWriter:
    """One run's folder. `facts` is bundle.json; change it, then `save`."""

    def __init__(self, results: Path, name: str, facts: dict[str, Any]) -> None:
        stamp = dt.datetime.now(dt.UTC).strftime("%Y%m%dT%H%M%SZ")
        self.folder = _create(results, f"{stamp}-{name}")
        (self.folder / "logs").mkdir()
        self.facts: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION, "name": name, "status": "partial", "reason": "not ended",
            "started_utc": utc_now(), "ended_utc": None, **facts, "repetitions": [],
        }  # fmt: skip
        self._samples, self._resources, self._path = SAMPLES.empty_table(), RESOURCES.empty_table(), PATH.empty_table()
        self.add_samples([])
        self.save()
        latest = results / "latest"
        fresh = results / f".latest-{os.getpid()}"
        fresh.symlink_to(self.folder.name)
        fresh.replace(latest)

    def add_samples(self, rows: list[dict[str, Any]]) -> None:
        """Append one repetition's samples; they are on disk when this returns."""
        self._samples = pa.concat_tables([self._samples, pa.Table.from_pylist(rows, SAMPLES)]).combine_chunks()
        self._write("samples.parquet", self._samples)

    def add_resources(self, order: int, rows: list[dict[str, Any]]) -> None:
        """Append what was sampled during one repetition."""
        table = pa.Table.from_pylist([row | {"order": order} for row in rows], RESOURCES)
        self._resources = pa.concat_tables([self._resources, table]).combine_chunks()
        self._write("resources.parquet", self._resources)

    def add_path(self, rows: list[dict[str, Any]]) -> None:
        """Append one repetition's split of O."""
        self._path = pa.concat_tables([self._path, pa.Table.from_pylist(rows, PATH)]).combine_chunks()
        self._write("path.parquet", self._path)

    def _write(self, name: str, table: pa.Table) -> None:
        scratch = self.folder / f".{name}"
        pq.write_table(table, scratch, compression="zstd")
        scratch.replace(self.folder / name)

    def save(self) -> None:
        """Write bundle.json as it stands."""
        scratch = self.folder / ".bundle.json"
        scratch.write_text(json.dumps(self.facts, indent=1, ensure_ascii=False) + "\n")
        scratch.replace(self.folder / "bundle.json")

    def close(self, status: str, reason: str | None) -> None:
        """Say how the run ended, and seal the files with their checksums."""
        self.facts |= {"status": status, "reason": reason, "ended_utc": utc_now()}
        self.save()
        sums = [
            f"{hashlib.sha256((self.folder / name).read_bytes()).hexdigest()}  {name}\n"
            for name in _CHECKED
            if (self.folder / name).exists()
        ]
        scratch = self.folder / ".SHA256SUMS"
        scratch.write_text("".join(sums))
        scratch.replace(self.folder / "SHA256SUMS")


def _create(results: Path, name: str) -> Path:
    results.mkdir(parents=True, exist_ok=True)
    for attempt in range(100):
        folder = results / (name if attempt == 0 else f"{name}-{attempt + 1}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise FileExistsError(results / name)
