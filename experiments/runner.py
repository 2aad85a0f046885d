# SPDX-License-Identifier: Apache-2.0
"""Runs a plan on a stand and writes its bundle, whatever happens in between."""

from __future__ import annotations

import contextlib
import itertools
import operator
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from experiments import disturbance, host, looks, noise, path, proof
from experiments.bundle import BundleWriter, utc_now
from experiments.disturbance import Disturbance
from experiments.errors import RefusedError, TestbedError
from experiments.injection import Injection
from experiments.observation import observe
from experiments.placements import Stand
from experiments.plan import Cell, Plan
from experiments.progress import RunProgress
from experiments.samples import counts, samples
from experiments.witness import Witness

CAPTURE_TIMEOUT_S = 60.0

RERUNS_IN_VAIN = 2
"""Re-runs in a row that were noisy again, after which a host counts as noisy for good."""


@dataclass
class Repetition:
    """One repetition under way: what the bundle will say of it, and the control loop's rows so far."""

    cell: Cell
    entry: dict[str, Any]
    rows: list[list[Any]] = field(default_factory=list)
    resources: list[dict[str, Any]] = field(default_factory=list)
    messages: list[list[Any]] = field(default_factory=list)
    """What the capture saw pass, in a run that has one."""


class Runner:
    """One run: a plan, a stand for each placement in it, a bundle."""

    def __init__(
        self, plan: Plan, stands: dict[str, Stand], results: Path, command: list[str], notice: str | None
    ) -> None:
        self._plan = plan
        self._stands = stands
        self._capacities: dict[Cell, float] = {}
        facts = {
            "command": command, "git": host.git(), "placement": "+".join(stands), "notice": notice,
            "plan": plan.record(), "noise_rule": noise.RULE, "host": host.facts(),
            "engine": None, "images": {}, "floor": None,
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
        except RefusedError as error:
            status, reason, code = "refused", str(error), error.exit_code
        except TestbedError as error:
            reason, code = str(error), error.exit_code
        except OSError as error:  # e.g. a full disk
            reason = str(error)
        finally:
            with _undisturbed():
                for stand in self._stands.values():
                    stand.down()
                self.bundle.close(status, reason or None)
        if code:
            console.print(f"testbed: {status}: {reason}", style="red", markup=False, highlight=False, soft_wrap=True)
        return code

    def _measure(self, console: Console) -> None:
        began_s = time.monotonic()
        for stand in self._stands.values():
            self._learn(stand.prepare(self.bundle.folder, self._plan.run))
        prepared_s = time.monotonic()
        self._measure_floor()
        order = self._plan.order()
        with RunProgress(self._plan, console) as progress:
            for repetition, block in itertools.groupby(order, key=operator.itemgetter(1)):
                for index, _ in block:
                    self._repeat(index, repetition, progress)
                if self._settled(repetition, progress):
                    break
            else:
                self._repeat_noisy(progress)
        ran = [entry["cell"] for entry in self._entries() if entry["rerun_of"] is None]
        scheduled_s = sum(self._plan.scheduled_s(self._plan.cells[cell]) for cell in ran)
        self.bundle.facts["durations_s"] = {
            "prepare": round(prepared_s - began_s, 3),
            "run": round(time.monotonic() - prepared_s, 3),
            "scheduled": round(scheduled_s, 3),
        }

    def _learn(self, facts: dict[str, Any]) -> None:
        """Merge what a placement says of its images and engine; with two placements both are told."""
        for name, value in facts.items():
            known = self.bundle.facts.get(name)
            self.bundle.facts[name] = value if not known else known if not value else known | value

    def _measure_floor(self) -> None:
        """Echo on the stand without what disturbs it: the floor is the instrument's, not the contention's."""
        cell = self._plan.cells[0]
        stand = self._stands[cell.placement]
        stand.up(cell.conditions.undisturbed())
        echoes = sorted(stand.floor_us())
        middle, tail = echoes[len(echoes) // 2], echoes[len(echoes) * 99 // 100]
        self.bundle.facts["floor"] = {"tcp_echo_t_us": {"p50": middle, "p99": tail, "count": len(echoes)}}

    def _entries(self) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self.bundle.facts["repetitions"]
        return entries

    def _settled(self, repetition: int, progress: RunProgress) -> bool:
        """Look, where the plan says so after this block, whether the run has its answer; nothing is measured meanwhile.

        What was noisy is run again before, for data that was looked at must not change any more.
        """
        if repetition not in {look.repetitions for look in self._plan.looks()}:
            return False
        self._repeat_noisy(progress)
        seen = looks.look(self.bundle.folder) | {"repetitions": repetition}
        self.bundle.facts.setdefault("looks", []).append(seen)
        self.bundle.save()
        progress.looked(seen)
        return bool(seen["stop"])

    def _repeat_noisy(self, progress: RunProgress) -> None:
        """Run noisy repetitions once more, each; on a host that stays noisy repeating cures nothing, so stop."""
        in_vain = 0
        again = {(entry["cell"], entry["rerun_of"]) for entry in self._entries()}
        waiting = [entry for entry in self._entries() if (entry["cell"], entry["repetition"]) not in again]
        for noisy in [entry for entry in waiting if entry["validity"] == "noisy" and entry["rerun_of"] is None]:
            taken = [entry["repetition"] for entry in self._entries() if entry["cell"] == noisy["cell"]]
            repetition = 1 + max(*taken, self._plan.settings.repetitions)
            rerun = self._repeat(noisy["cell"], repetition, progress, rerun_of=noisy["repetition"])
            quiet = rerun["validity"] == "valid"
            noisy["counted"], rerun["counted"] = not quiet, quiet
            self.bundle.save(noisy, rerun)
            in_vain = 0 if quiet else in_vain + 1
            if in_vain == RERUNS_IN_VAIN:
                return

    def _repeat(
        self, index: int, repetition: int, progress: RunProgress, rerun_of: int | None = None
    ) -> dict[str, Any]:
        cell = self._plan.cells[index]
        entry: dict[str, Any] = {
            "order": len(self._entries()), "cell": index, "repetition": repetition, "started_utc": utc_now(),
            "validity": "interrupted", "reasons": ["not ended"], "counted": False, "rerun_of": rerun_of,
        }  # fmt: skip
        running = Repetition(cell, entry)
        began_s = time.monotonic()
        progress.begin(cell)
        try:
            self._observe(running, progress)
        except RefusedError as error:  # before its first cycle: a knob that cannot be applied, a QoS not granted
            entry |= {"validity": "refused", "reasons": [str(error)]}
        finally:
            entry["duration_s"] = round(time.monotonic() - began_s, 3)
            self._file(running)
        progress.end(cell, entry["duration_s"])
        if entry["validity"] == "refused":
            raise RefusedError(f"repetition {repetition} at {cell.describe()}: {entry['reasons'][0]}")
        return entry

    def _observe(self, running: Repetition, progress: RunProgress) -> None:
        """Bring the stand to the cell's conditions, run one repetition on a fresh broker, and judge it."""
        cell, entry, stand = running.cell, running.entry, self._stands[running.cell.placement]
        conditions = cell.conditions
        stand.up(conditions.standing())
        disturbing = Disturbance(stand, conditions.contention, self._plan.run, self._capacity(cell))
        stand.fresh_broker()
        stand.apply(conditions)
        capture = stand.capture() if self._plan.captured else None
        disturbing.begin()
        witness = Witness(stand, conditions)
        job = self._plan.job(cell, entry["repetition"])
        watch = _Watch(witness, self._injection(cell, stand))
        try:
            done = observe(
                stand.channel("control-loop"), job, running.rows, lambda t_us: progress.samples(cell, t_us), watch
            )
        finally:
            watch.end_fault(entry)
        told = disturbing.end()
        if capture:
            capture.send(b"stop")
            entry["capture"] = capture.receive(CAPTURE_TIMEOUT_S)
            running.messages = entry["capture"].pop("messages")
            del entry["capture"]["event"]
        entry["control_loop"] = _loop_facts(done)
        entry["noise"] = witness.noise | {"observer_cpu_percent": witness.observer_cpu_percent}
        entry["proofs"] = [
            *witness.proofs, *proof.of_qos(done, done["granted_qos"], cell.qos, cell.qos_answer), *proof.of_board(done),
        ]  # fmt: skip
        running.resources = witness.resources + _drops(done["broker_dropped"])
        problems = proof.problems(entry["proofs"])
        if watch.injection:
            problems += watch.injection.done.problems()
        if conditions.contention:
            achieved = witness.achieved(told)
            entry["contention"] = conditions.contention.record(achieved, disturbing.asked)
            shortfall = conditions.contention.shortfall(achieved, disturbing.asked)
            problems += [shortfall] if shortfall else []
        self._judge(entry, done["connection_lost"], problems)

    def _injection(self, cell: Cell, stand: Stand) -> Injection | None:
        """Prepare the fault of a cell, which comes so long after the first cycle, warm-up included."""
        conditions, at_ms = cell.conditions, cell.fault_at_ms
        if conditions.fault is None or at_ms is None:
            return None
        delay_ms = self._plan.settings.warmup * cell.interval_ms + at_ms
        return Injection(conditions.fault, stand, delay_ms, lambda: stand.apply(conditions))

    def _judge(self, entry: dict[str, Any], lost: str | None, problems: list[str]) -> None:
        """Say what a repetition is worth; noise is judged with its samples, in `_file`."""
        validity = "interrupted" if lost else "refused" if problems else "valid"
        entry |= {"validity": validity, "reasons": [lost] if lost else problems, "counted": validity == "valid"}

    def _capacity(self, cell: Cell) -> float | None:
        """Give what the broker takes, measured once for each set of conditions that asks for a part of it."""
        contention = cell.conditions.contention
        if contention is None or not contention.needs_capacity():
            return None
        if cell not in self._capacities:
            self._capacities[cell] = disturbance.capacity(self._stands[cell.placement], contention, self._plan.run)
            self.bundle.facts["broker_capacity_per_s"] = max(self._capacities.values())
        return self._capacities[cell]

    def _file(self, running: Repetition) -> None:
        entry = running.entry
        rows = samples(self._plan, running.cell, entry["repetition"], running.rows)
        entry["counts"] = counts(rows)
        entry.setdefault("noise", {})["lateness_us"] = noise.lateness(rows)
        if entry["validity"] == "valid":
            conditions = running.cell.conditions
            disturbed = conditions.contention is not None or conditions.fault is not None
            reasons = noise.reasons(entry["noise"], disturbed=disturbed)
            entry |= {"validity": "noisy" if reasons else "valid", "reasons": reasons}
        self.bundle.add_samples(rows)
        if self._plan.captured:
            seen = path.passed(running.messages, entry["repetition"])
            self.bundle.add_path([parts for row in rows if (parts := path.split(row, seen))])
        self.bundle.add_resources(entry["order"], running.resources)
        self._entries().append(entry)
        self.bundle.save()

    def _verdict(self) -> tuple[str, str, int]:
        broken = [entry for entry in self._entries() if entry["validity"] == "interrupted"]
        if broken:
            return "partial", f"{len(broken)} repetitions broke off, first: {broken[0]['reasons'][0]}", 1
        return "complete", "", 0


@dataclass
class _Watch:
    """A repetition's witness and its fault, which begins after the first proofs and ends before the last."""

    witness: Witness
    injection: Injection | None

    def begin(self) -> None:
        """Take the first proofs; the time of the fault counts from now, not from when they are done."""
        ready_ns = time.monotonic_ns()
        self.witness.begin()
        if self.injection:
            self.injection.begin(ready_ns)

    def end(self) -> None:
        """Put back what the fault took away, then take the last proofs."""
        if self.injection:
            self.injection.end()
        self.witness.end()

    def end_fault(self, entry: dict[str, Any]) -> None:
        """End the fault whatever ended the repetition, and say in its entry what is known of it."""
        if self.injection:
            self.injection.end()
            entry["fault"] = self.injection.done.record()


def _loop_facts(done: dict[str, Any]) -> dict[str, Any]:
    cpu_percent = round(100 * done["cpu_s"] / max(done["elapsed_s"], 1e-9), 2)
    kept = ("granted_qos", "foreign", "malformed", "board_repeats")
    return {"cpu_percent": cpu_percent} | {name: done[name] for name in kept}


def _drops(totals: list[tuple[int, int]]) -> list[dict[str, Any]]:
    """Rows of resources for what the broker says it dropped, as increases; the first is what it began with."""
    return [
        {"t_ns": t_ns, "service": "broker", "sys_dropped": total - before}
        for (_, before), (t_ns, total) in itertools.pairwise(totals)
    ]


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
