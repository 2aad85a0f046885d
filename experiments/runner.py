# SPDX-License-Identifier: Apache-2.0
"""Runs a plan on a stand and writes its bundle, whatever happens in between."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from experiments import host
from experiments.bundle import BundleWriter, utc_now
from experiments.errors import TestbedError
from experiments.noise import lateness
from experiments.observation import observe
from experiments.placements import Stand
from experiments.plan import Cell, Plan
from experiments.progress import RunProgress
from experiments.samples import counts, samples


class Runner:
    """One run: a plan, a stand, a bundle."""

    def __init__(self, plan: Plan, stand: Stand, results: Path, command: list[str], notice: str | None) -> None:
        self._plan = plan
        self._stand = stand
        self._rows: list[list[Any]] = []
        facts = {
            "command": command, "git": host.git(), "placement": stand.name, "notice": notice, "plan": plan.record(),
            "host": host.facts(), "engine": None, "images": {}, "floor": None,
        }  # fmt: skip
        self.bundle = BundleWriter(results, plan.name, facts)

    def run(self, console: Console) -> int:
        """Run every repetition; returns the exit code. The bundle is sealed in any case."""
        status, reason, code = "partial", "not ended", 1
        try:
            with _stoppable():
                self._measure(console)
            status, reason, code = self._verdict()
        except KeyboardInterrupt:
            reason, code = "interrupted by the user", 130
        except TestbedError as error:
            reason, code = str(error), error.exit_code
        except OSError as error:  # e.g. a full disk
            reason = str(error)
        finally:
            with _undisturbed():
                self._stand.down()
                self.bundle.close(status, reason or None)
        if code:
            console.print(f"testbed: {status}: {reason}", style="red", markup=False, highlight=False, soft_wrap=True)
        return code

    def _measure(self, console: Console) -> None:
        began_s = time.monotonic()
        self.bundle.facts |= self._stand.prepare(self.bundle.folder, self._plan.run)
        prepared_s = time.monotonic()
        self._stand.up(self._plan.cells[0].conditions)
        self._measure_floor()
        order = self._plan.order()
        with RunProgress(self._plan, console) as progress:
            for position, (index, repetition) in enumerate(order):
                self._repeat(position, index, repetition, progress)
        scheduled_s = sum(self._plan.scheduled_s(self._plan.cells[cell]) for cell, _ in order)
        self.bundle.facts["durations_s"] = {
            "prepare": round(prepared_s - began_s, 3),
            "run": round(time.monotonic() - prepared_s, 3),
            "scheduled": round(scheduled_s, 3),
        }

    def _measure_floor(self) -> None:
        echoes = sorted(self._stand.floor_us())
        middle, tail = echoes[len(echoes) // 2], echoes[len(echoes) * 99 // 100]
        self.bundle.facts["floor"] = {"tcp_echo_t_us": {"p50": middle, "p99": tail, "count": len(echoes)}}

    def _repeat(self, position: int, index: int, repetition: int, progress: RunProgress) -> None:
        cell = self._plan.cells[index]
        entry: dict[str, Any] = {
            "order": position, "cell": index, "repetition": repetition, "started_utc": utc_now(),
            "validity": "interrupted", "reasons": ["not ended"], "counted": False, "rerun_of": None,
        }  # fmt: skip
        self._rows = []
        began_s = time.monotonic()
        progress.begin(cell)
        try:
            channel = self._stand.up(cell.conditions)
            self._stand.fresh_broker()
            job = self._plan.job(cell, repetition)
            observation = observe(channel, job, self._rows, lambda t_us: progress.samples(cell, t_us))
            problem = observation.done["connection_lost"]
            entry |= {
                "validity": "interrupted" if problem else "valid", "reasons": [problem] if problem else [],
                "counted": not problem, "noise": observation.noise, "control_loop": _loop_facts(observation.done),
            }  # fmt: skip
        finally:
            entry["duration_s"] = round(time.monotonic() - began_s, 3)
            self._file(entry, cell, repetition)
        progress.end(cell, entry["duration_s"])

    def _file(self, entry: dict[str, Any], cell: Cell, repetition: int) -> None:
        rows = samples(self._plan, cell, repetition, self._rows)
        entry["counts"] = counts(rows)
        entry.setdefault("noise", {})["lateness_us"] = lateness(rows)
        self.bundle.add_samples(rows)
        self.bundle.facts["repetitions"].append(entry)
        self.bundle.save()

    def _verdict(self) -> tuple[str, str, int]:
        broken = [entry for entry in self.bundle.facts["repetitions"] if entry["validity"] == "interrupted"]
        if broken:
            return "partial", f"{len(broken)} repetitions broke off, first: {broken[0]['reasons'][0]}", 1
        return "complete", "", 0


def _loop_facts(done: dict[str, Any]) -> dict[str, Any]:
    cpu_percent = round(100 * done["cpu_s"] / max(done["elapsed_s"], 1e-9), 2)
    kept = ("granted_qos", "foreign", "malformed")
    return {"cpu_percent": cpu_percent} | {name: done[name] for name in kept}


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """Let SIGTERM end a run as Ctrl-C does."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Keep an impatient second Ctrl-C from cutting the tidying short."""
    previous = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
