# SPDX-License-Identifier: Apache-2.0
"""Bundles made to order, strictly as docs/bundle.md says: what `experiments` would write, with known latencies."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from schema.upgrades import upgraded

NS = 1_000
TIMEOUT_US = 1_000_000
Facts = dict[str, Any]

CONTROL: Facts = {name: upgraded({"schema_version": 1}, 2)[name] for name in ("family", "axes", "metrics")}
ECHO: Facts = {
    "family": "echo",
    "axes": [
        {"name": "interval_ms", "words": "a cycle every {} ms", "short": "{} ms"},
        {"name": "size_bytes", "words": "{} bytes", "short": "{} bytes"},
    ],
    "metrics": [{"name": "RTT", "column": "rtt_us", "words": "from request to echo, at the client"}],
}
SERVER: Facts = {
    "family": "server",
    "axes": [{"name": "transport", "words": "over {}", "short": "by {}"}],
    "metrics": [
        {"name": "Whole", "column": "whole_us", "words": "from request to answer"},
        {"name": "Work", "column": "work_us", "words": "the server's", "answered_only": True},
        {"name": "Way", "column": "way_us", "words": "there and back", "difference": ["Whole", "Work"]},
    ],
}
"""Families: their names, axes and metrics, as bundle.json has them."""

COMMON = {
    "scenario": pa.string(),
    "arm": pa.string(),
    "repetition": pa.int64(),
    "sequence": pa.int64(),
    "warmup": pa.bool_(),
    "intended_ns": pa.int64(),
    "sent_ns": pa.int64(),
    "received_ns": pa.int64(),
    "status": pa.string(),
    "cause": pa.string(),
    "board": pa.string(),
}


def as_version_1(document: Facts) -> None:
    """Turns bundle.json into what it was before there was more than one family."""
    document["schema_version"] = 1
    for name in CONTROL:
        del document[name]


@dataclass(frozen=True)
class Latency:
    """Log-normal O over a fixed path, correlated from cycle to cycle, with a level that varies by repetition (µs)."""

    r_us: float = 4300
    floor_us: float = 500
    spread_us: float = 250
    sigma: float = 0.8
    correlation: float = 0.3
    between_us: float = 20
    shift_us: float = 0
    drift_us: float = 0
    climb_us: float = 0
    """From the first cycle of a repetition to its last."""

    def draw(self, rng: np.random.Generator, cycles: int, repetition: int) -> tuple[np.ndarray, np.ndarray]:
        """(R, O) in whole µs, each (cycles,)."""
        noise = rng.standard_normal(cycles)
        for i in range(1, cycles):
            noise[i] = self.correlation * noise[i - 1] + np.sqrt(1 - self.correlation**2) * noise[i]
        level = self.floor_us + self.shift_us + self.drift_us * repetition + self.between_us * rng.standard_normal()
        climb = self.climb_us * np.arange(cycles) / cycles
        o = np.maximum(level + climb + self.spread_us * np.exp(self.sigma * noise), 50)
        r = np.maximum(self.r_us + 60 * rng.standard_normal(cycles), 30)
        return np.rint(r).astype(np.int64), np.rint(o).astype(np.int64)


@dataclass(frozen=True)
class CellSpec:
    """A cell to write: the conditions, its latency, and what goes wrong in each repetition."""

    scenario: str = "1"
    arm: str = ""
    interval_ms: int = 20
    qos: int = 0
    places: dict[str, Any] = field(default_factory=dict)
    """Values on axes that have no field here."""
    latency: Latency = field(default_factory=Latency)
    contention: str | None = None
    knobs: dict[str, Any] = field(default_factory=lambda: {"broker": {"tcp": "nodelay"}})
    board: str = "simavr"
    lost: int = 0
    late: int = 0
    duplicate: int = 0
    lateness_us: int = 130
    fault: str | None = None
    outage_ms: int = 0
    """Requests of so long after the fault, which comes half-way, are lost."""
    board_failures: int = 0
    slowest_lost: float = 0
    """The share of each repetition's cycles, its slowest, that are lost."""
    silent: tuple[int, ...] = ()
    """Repetitions that answer nothing."""
    again: tuple[int, ...] = ()
    """Repetitions that were noisy, and run again after all others."""

    def on(self, family: Facts) -> Facts:
        """Its values on the axes of a family."""
        names = [axis["name"] for axis in family["axes"]]
        return {name: self.places[name] if name in self.places else getattr(self, name) for name in names}


@dataclass(frozen=True)
class Spec:
    """A bundle to write."""

    name: str = "scenario-1"
    cells: tuple[CellSpec, ...] = (CellSpec(),)
    repetitions: int = 5
    messages: int = 100
    warmup: int = 5
    seed: int = 1
    data_seed: int = 1
    status: str = "complete"
    notice: str | None = None
    placement: str = "docker"
    resources: bool = False
    proofs: bool = True
    drift_us: float = 0
    """What the host adds to O from one repetition run to the next."""
    host: dict[str, Any] = field(default_factory=dict)
    family: Facts = field(default_factory=lambda: CONTROL)
    edit: Callable[[dict[str, Any]], Any] = str


def write(folder: Path, spec: Spec = Spec()) -> Path:
    """Writes the bundle into `folder` and returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(spec.data_seed)
    order = [(c, r + 1) for r in range(spec.repetitions) for c in rng.permutation(len(spec.cells)).tolist()]
    rows: list[dict[str, Any]] = []
    repetitions = []
    start_ns = 1_000_000_000_000
    again = [(c, first) for c, cell in enumerate(spec.cells) for first in cell.again]
    numbers = {pair: spec.repetitions + 1 + spec.cells[pair[0]].again.index(pair[1]) for pair in again}
    runs = [(c, r, None) for c, r in order] + [(c, numbers[c, first], first) for c, first in again]
    for position, (index, repetition, first) in enumerate(runs):
        own = _repetition_rows(rng, spec, spec.cells[index], repetition, start_ns, round(spec.drift_us * position))
        rows += own
        entry = _repetition_entry(spec, position, index, repetition, own) | {"rerun_of": first}
        if (index, repetition) in again:
            entry |= {"validity": "noisy", "reasons": ["steal 9 %"], "counted": False}
        repetitions.append(entry)
        start_ns += (spec.messages + spec.warmup) * spec.cells[index].interval_ms * 1_000_000 + 2_000_000_000
    document = _document(spec, order, repetitions)
    spec.edit(document)
    columns = {name: pa.array([row[name] for row in rows], COMMON.get(name)) for name in rows[0]}
    pq.write_table(pa.table(columns), folder / "samples.parquet", compression="zstd")
    (folder / "bundle.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
    (folder / "compose.yml").write_text("services: {}\n", encoding="utf-8")
    if spec.resources:
        _write_resources(folder, rng, rows, document)
    checksums(folder)
    return folder


def _latencies(family: Facts, whole_us: int, part_us: int) -> dict[str, int]:
    """By column: the first metric is the whole, one of the answered the part, a difference what it says."""
    values: dict[str, int] = {}
    for place, metric in enumerate(family["metrics"]):
        if difference := metric.get("difference"):
            values[metric["name"]] = values[difference[0]] - values[difference[1]]
        else:
            values[metric["name"]] = whole_us if place == 0 else part_us
    return {metric["column"]: values[metric["name"]] for metric in family["metrics"]}


def checksums(folder: Path) -> None:
    """SHA256SUMS as the runner writes it."""
    names = [n for n in ("bundle.json", "compose.yml", "resources.parquet", "samples.parquet") if (folder / n).exists()]
    lines = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def _repetition_rows(  # noqa: PLR0917
    rng: np.random.Generator, spec: Spec, cell: CellSpec, repetition: int, start_ns: int, drift_us: int
) -> list[dict[str, Any]]:
    total = spec.warmup + spec.messages
    r, o = cell.latency.draw(rng, total, repetition)
    o = o + drift_us
    special = rng.permutation(np.arange(spec.warmup, total)).tolist()
    lost = {special.pop() for _ in range(cell.lost)}
    slow = np.argsort((r + o)[spec.warmup :])[::-1][: round(cell.slowest_lost * spec.messages)] + spec.warmup
    lost |= set(range(spec.warmup, total)) if repetition in cell.silent else set(slow.tolist())
    failed = {special.pop() for _ in range(cell.board_failures)}
    late = {special.pop() for _ in range(cell.late)}
    duplicate = {special.pop() for _ in range(cell.duplicate)}
    columns = [metric["column"] for metric in spec.family["metrics"]]
    rows = []
    for i in range(total):
        intended = start_ns + i * cell.interval_ms * 1_000_000
        sent = intended + (cell.lateness_us + int(rng.integers(-70, 70))) * NS
        t = int(r[i] + o[i]) + (TIMEOUT_US if i in late else 0)
        received = sent + t * NS + int(rng.integers(-400, 400))
        row: dict[str, Any] = {
            "scenario": cell.scenario,
            "arm": cell.arm,
            **cell.on(spec.family),
            "repetition": repetition,
            "sequence": i,
            "warmup": i < spec.warmup,
            "intended_ns": intended,
            "sent_ns": sent,
            "received_ns": received,
            **_latencies(spec.family, t, int(r[i])),
            "status": "late" if i in late else "ok",
            "cause": None,
            "board": cell.board,
        }
        if i in lost:
            row |= dict.fromkeys(("received_ns", *columns)) | {"status": "lost", "cause": "no answer"}
        fault_ns = _fault_ns(spec, cell, start_ns)
        if cell.fault and fault_ns <= intended < fault_ns + cell.outage_ms * 1_000_000:
            row |= dict.fromkeys(("received_ns", *columns)) | {"status": "lost", "cause": "no answer"}
        if i in failed:
            row |= dict.fromkeys(columns) | {"status": "lost", "cause": "board timeout"}
        rows.append(row)
        if i in duplicate:
            again = {"received_ns": received + 50 * NS, **_latencies(spec.family, t + 50, int(r[i]))}
            rows.append(row | again | {"status": "duplicate"})
    return rows


def _fault_ns(spec: Spec, cell: CellSpec, start_ns: int) -> int:
    """Just before the cycle in the middle is due."""
    return start_ns + (spec.warmup + spec.messages // 2) * cell.interval_ms * 1_000_000 - 100_000


def _fault_entry(spec: Spec, cell: CellSpec, rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    if cell.fault is None:
        return None
    injected_ns = _fault_ns(spec, cell, rows[0]["intended_ns"])
    evidence = [{"what": "broker ended", "read": "exit status 137", "holds": True, "t_ns": injected_ns + 5_000}]
    return {
        "kind": cell.fault,
        "requested_at_ns": injected_ns - 1000,
        "injected_ns": injected_ns,
        "in_force_ns": injected_ns + 10_000,
        "ended_ns": injected_ns + cell.outage_ms * 500_000,
        "evidence": evidence,
        "error": None,
    }


def _repetition_entry(spec: Spec, order: int, cell: int, repetition: int, rows: list[dict[str, Any]]) -> dict[str, Any]:
    own = [row for row in rows if not row["warmup"]]
    count = {status: sum(row["status"] == status for row in own) for status in ("ok", "late", "lost", "duplicate")}
    offered = count["ok"] + count["late"] + count["lost"]
    proofs = [
        {"service": service, "knob": knob, "requested": value, "holds": True, "observed": {knob: value}}
        for service, knobs in spec.cells[cell].knobs.items()
        for knob, value in knobs.items()
    ]
    return {
        "order": order,
        "cell": cell,
        "repetition": repetition,
        "started_utc": "2026-11-21T03:00:00.123456Z",
        "duration_s": 2.1,
        "validity": "valid",
        "reasons": [],
        "counted": True,
        "rerun_of": None,
        "counts": {"offered": offered, "sent": offered, **count},
        "noise": {"steal_percent": 0.1, "foreign_cpu_percent": 2.0, "lateness_us": {"p50": 80, "p99": 150, "max": 300}},
        "control_loop": {"cpu_percent": 2.1, "board_lateness_us": None},
        "contention": None,
        "fault": _fault_entry(spec, spec.cells[cell], rows),
        "proofs": proofs if spec.proofs else [],
    }


def _document(spec: Spec, order: list[tuple[int, int]], repetitions: list[dict[str, Any]]) -> dict[str, Any]:
    cells = [
        {
            "cell": i,
            "scenario": cell.scenario,
            "arm": cell.arm,
            **cell.on(spec.family),
            "board": cell.board,
            "contention": cell.contention,
            "knobs": cell.knobs,
            "qos_answer": None,
            "fault": cell.fault,
            "fault_at_ms": cell.fault and spec.messages // 2 * cell.interval_ms,
        }
        for i, cell in enumerate(spec.cells)
    ]
    host = {
        "hostname_hash": "1f2e3d",
        "kernel": "6.18.5",
        "cpus": 2,
        "cpu_model": "Example CPU",
        "memory_bytes": 24 << 30,
        "os": "Debian GNU/Linux 12",
        "cgroup": "hybrid",
        "rt_group_sched": True,
        "psi": True,
    }
    return {
        "schema_version": 2,
        **spec.family,
        "name": spec.name,
        "status": spec.status,
        "reason": None if spec.status == "complete" else "interrupted by the user",
        "command": ["make", spec.name],
        "started_utc": "2026-11-21T03:00:00.123456Z",
        "ended_utc": "2026-11-21T03:10:00.654321Z",
        "git": {"revision": "0" * 40, "dirty": False},
        "placement": spec.placement,
        "notice": spec.notice,
        "plan": {
            "seed": spec.seed,
            "messages": spec.messages,
            "repetitions": spec.repetitions,
            "warmup": spec.warmup,
            "timeout_ms": 1000,
            "run": "8f3a2c1d",
            "cells": cells,
            "order": [list(pair) for pair in order],
        },
        "host": host | spec.host,
        "engine": {"version": "26.1.5", "compose": "2.26.1"} if spec.placement == "docker" else None,
        "images": {
            "broker": {
                "reference": "eclipse-mosquitto:2.0.21",
                "id": "sha256:" + "a" * 64,
                "origin": "debian",
                "versions": {"mosquitto": "2.0.21"},
            }
        },
        "floor": {"tcp_echo_t_us": {"p50": 110, "p99": 200, "count": 200}},
        "repetitions": repetitions,
    }


def _write_resources(
    folder: Path, rng: np.random.Generator, rows: list[dict[str, Any]], document: dict[str, Any]
) -> None:
    """10 Hz per service, spanning each repetition."""
    axes = [axis["name"] for axis in document["axes"]]
    by_repetition: dict[tuple[Any, ...], list[int]] = {}
    for row in rows:
        key = tuple(row[name] for name in ("scenario", "arm", *axes, "repetition"))
        by_repetition.setdefault(key, []).append(row["intended_ns"])
    columns: dict[str, list[Any]] = {}
    names = (
        "cpu_percent",
        "memory_bytes",
        "throttled_us",
        "voluntary_switches",
        "involuntary_switches",
        "run_delay_us",
        "psi_cpu_some_us",
        "steal_percent",
        "foreign_cpu_percent",
        "sys_dropped",
        "tcp_retransmits",
    )
    for entry in document["repetitions"]:
        cell = document["plan"]["cells"][entry["cell"]]
        times = by_repetition[(*(cell[name] for name in ("scenario", "arm", *axes)), entry["repetition"])]
        for t_ns in range(min(times), max(times) + 1, 100_000_000):
            for service in ("broker", "control-loop", "pi", "host"):
                row = _resource_row(rng, service)
                columns.setdefault("t_ns", []).append(t_ns)
                columns.setdefault("order", []).append(entry["order"])
                columns.setdefault("service", []).append(service)
                for name in names:
                    columns.setdefault(name, []).append(row.get(name))
    types = {"t_ns": pa.int64(), "order": pa.int64(), "service": pa.string()}
    arrays = {name: pa.array(values, types.get(name, pa.float64())) for name, values in columns.items()}
    pq.write_table(pa.table(arrays), folder / "resources.parquet")


def _resource_row(rng: np.random.Generator, service: str) -> dict[str, float]:
    if service == "host":
        return {
            "steal_percent": float(rng.exponential(0.3)),
            "foreign_cpu_percent": float(rng.exponential(2)),
            "psi_cpu_some_us": float(rng.exponential(900)),
        }
    row = {
        "cpu_percent": float(rng.gamma(2, 1.5)),
        "memory_bytes": 8e6,
        "throttled_us": 0.0,
        "voluntary_switches": float(rng.poisson(20)),
        "involuntary_switches": float(rng.poisson(2)),
        "run_delay_us": float(rng.exponential(400)),
        "psi_cpu_some_us": float(rng.exponential(300)),
    }
    if service == "broker":
        row |= {"sys_dropped": 0.0, "tcp_retransmits": 0.0}
    return row
