# SPDX-License-Identifier: Apache-2.0
"""Runs a plan on a stand and writes its bundle, whatever happens in between."""

from __future__ import annotations

import itertools
import operator
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from experiments import disturbance, host, looks, noise, proof, tidy
from experiments.bundle import BundleWriter, utc_now
from experiments.cells import Cell, Conditions
from experiments.disturbance import Disturbance
from experiments.errors import RefusedError, StandError, TestbedError
from experiments.injection import Injection
from experiments.interruption import stoppable, undisturbed
from experiments.observation import observe
from experiments.placements import Stand
from experiments.plan import Plan
from experiments.progress import RunProgress
from experiments.samples import counts, samples
from experiments.witness import Witness

CAPTURE_TIMEOUT_S = 60.0

RERUNS_IN_VAIN = 2
"""Re-runs in a row that were noisy again, after which a host counts as noisy for good."""

FAILED_IN_VAIN = 3
"""Repetitions in a row that broke off or fell short, after which this stand counts as unfit for this run."""


@dataclass
class Repetition:
    """One repetition under way: what the bundle will say of it, and the control loop's rows so far."""

    cell: Cell
    entry: dict[str, Any]
    rows: list[list[Any]] = field(default_factory=list)
    resources: list[dict[str, Any]] = field(default_factory=list)
    messages: list[list[Any]] = field(default_factory=list)
    """What the capture saw pass, in a run that has one."""
    witness: Witness | None = None
    ended_ns: int | None = None
    """When the control loop ended or fell silent in the middle of the cycles; None: it told of all of them."""
    hopeless: bool = False
    """Refused for what every repetition of its cell would be refused for."""

    def file(self, validity: str, reasons: list[str]) -> None:
        """Record what it is worth."""
        self.entry |= {"validity": validity, "reasons": reasons, "counted": validity == "valid"}

    def break_off(self, reason: str) -> None:
        """The stand failed; where cycles were under way, nothing more will be told of them."""
        self.file("interrupted", [reason])
        if self.witness is not None and self.witness.began_ns is not None:
            self.ended_ns = time.monotonic_ns()


class Runner:
    """One run: a plan, a stand for each placement in it, a bundle."""

    def __init__(
        self, plan: Plan, stands: dict[str, Stand], results: Path, command: list[str], notice: str | None
    ) -> None:
        self._plan = plan
        self._stands = stands
        self._capacities: dict[Cell, float] = {}
        self._failed = 0
        facts = {
            "command": command, "git": host.git(), "placement": "+".join(stands), "notice": notice,
            **plan.family.record(), "plan": plan.record(), "noise_rule": noise.RULE, "host": host.facts(),
            "engine": None, "images": {}, "floor": None,
        }  # fmt: skip
        self.bundle = BundleWriter(results, plan.name, plan.family, facts)

    def run(self, console: Console) -> int:
        """Run every repetition; returns the exit code. Whatever happens, the stand is taken down, the bundle sealed."""
        status, reason, code = "partial", "not ended", 1
        try:
            with stoppable():
                self._measure(console)
            status, reason, code = self._verdict()
        except KeyboardInterrupt:
            reason, code = "interrupted by the user", 130
        except RefusedError as error:
            status, reason, code = "refused", str(error), error.exit_code
        except TestbedError as error:
            reason, code = str(error), error.exit_code
        except OSError as error:  # e.g. a full disk
            reason = f"{error.filename}: {error.strerror}; free some space there" if error.filename else str(error)
        except Exception as error:
            reason = f"a mistake of ours: {type(error).__name__}: {error}"
            raise
        finally:
            with undisturbed():
                untidy = self._end(status, reason or None)
        for line in [*([f"{status}: {reason}"] if code else []), *untidy]:
            console.print(f"testbed: {line}", style="red", markup=False, highlight=False, soft_wrap=True)
        return code or int(bool(untidy))

    def _end(self, status: str, reason: str | None) -> list[str]:
        """Take the stands down and seal the bundle; returns a line for each step that failed."""
        steps: list[tidy.Step] = [(f"placement {name}", stand.down) for name, stand in self._stands.items()]
        return tidy.each([*steps, (str(self.bundle.folder), lambda: self.bundle.close(status, reason))])

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
                self._repeat_spoilt(progress)
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
        try:
            echoes = sorted(stand.floor_us())
        except StandError:  # without it the results stand, but their floor is not known
            stand.reset()
            return
        middle, tail = echoes[len(echoes) // 2], echoes[len(echoes) * 99 // 100]
        self.bundle.facts["floor"] = {"tcp_echo_t_us": {"p50": middle, "p99": tail, "count": len(echoes)}}

    def _entries(self) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self.bundle.facts["repetitions"]
        return entries

    def _settled(self, repetition: int, progress: RunProgress) -> bool:
        """Look, where the plan says so after this block, whether the run has its answer; nothing is measured meanwhile.

        What failed or was noisy is run again before, for data that was looked at must not change any more.
        """
        if repetition not in {look.repetitions for look in self._plan.looks()}:
            return False
        self._repeat_spoilt(progress)
        seen = looks.look(self.bundle.folder, *self._plan.looked_at) | {"repetitions": repetition}
        self.bundle.facts.setdefault("looks", []).append(seen)
        self.bundle.save()
        progress.looked(seen)
        return bool(seen["stop"])

    def _repeat_spoilt(self, progress: RunProgress) -> None:
        """Run each repetition that failed or was noisy once more.

        On a host that stays noisy repeating cures nothing, so stop. What a superseded repetition lost stays in the
        bundle, and in its losses: only its latencies make way.
        """
        again = {(entry["cell"], entry["rerun_of"]) for entry in self._entries()}
        waiting = [entry for entry in self._entries() if (entry["cell"], entry["repetition"]) not in again]
        spoilt = [entry for entry in waiting if entry["validity"] != "valid" and entry["rerun_of"] is None]
        in_vain = 0
        for before in sorted(spoilt, key=lambda entry: entry["validity"] == "noisy"):
            taken = [entry["repetition"] for entry in self._entries() if entry["cell"] == before["cell"]]
            repetition = 1 + max(*taken, self._plan.settings.repetitions)
            rerun = self._repeat(before["cell"], repetition, progress, rerun_of=before["repetition"])
            better = rerun["validity"] == "valid" or (rerun["counted"] and not before["counted"])
            before["counted"], rerun["counted"] = before["counted"] and not better, better
            self.bundle.save(before, rerun)
            in_vain = 0 if better or before["validity"] != "noisy" else in_vain + 1
            if in_vain == RERUNS_IN_VAIN:
                return

    def _repeat(
        self, index: int, repetition: int, progress: RunProgress, rerun_of: int | None = None
    ) -> dict[str, Any]:
        """Run one repetition, and file it whatever becomes of it; raise what ends the run."""
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
            running.file("refused", [str(error)])
            running.hopeless = True
        except (StandError, OSError) as error:  # a service died, or the engine
            gone = self._stands[cell.placement].gone()
            running.hopeless = gone is not None
            running.break_off(gone or _with_cause(str(error), self._stands[cell.placement]))
        except KeyboardInterrupt:
            running.file("interrupted", ["interrupted by the user"])
            raise
        finally:
            entry["duration_s"] = round(time.monotonic() - began_s, 3)
            self._file(running)
        progress.end(cell, entry["duration_s"])
        self._go_on_after(running)
        return entry

    def _go_on_after(self, running: Repetition) -> None:
        """Have a stand that failed brought up anew; raise when going on is pointless."""
        entry = running.entry
        if entry["validity"] in {"valid", "noisy"}:
            self._failed = 0
            return
        self._stands[running.cell.placement].reset()
        self._failed += 1
        reason = f"repetition {entry['repetition']} at {running.cell.describe()}: {entry['reasons'][0]}"
        ended = RefusedError if entry["validity"] == "refused" else StandError
        if running.hopeless:
            raise ended(reason)
        if self._failed == FAILED_IN_VAIN:
            raise ended(f"{FAILED_IN_VAIN} repetitions in a row failed, at last {reason}")

    def _observe(self, running: Repetition, progress: RunProgress) -> None:
        """Bring the stand to the cell's conditions, run one repetition with nothing left of the last, and judge it."""
        cell, entry, stand = running.cell, running.entry, self._stands[running.cell.placement]
        conditions = cell.conditions
        stand.up(conditions.standing())
        if stand.as_run is not None:
            entry["compose"] = self.bundle.add_compose(stand.as_run)
        disturbing = Disturbance(stand, conditions.contention, self._plan.run, self._capacity(cell))
        stand.refresh()
        stand.apply(conditions)
        capture = stand.capture() if self._plan.captured else None
        disturbing.begin()
        running.witness = witness = Witness(stand, conditions)
        job = self._plan.job(cell, entry["repetition"])
        watch = _Watch(witness, self._injection(cell, stand, witness))
        try:
            done = observe(
                stand.channel(self._plan.family.driver),
                job,
                running.rows,
                lambda t_us: progress.samples(cell, t_us),
                watch,
            )
        finally:
            watch.end_fault(entry)
        shortfalls = watch.excused(_disturbed(entry, disturbing, witness), conditions) + watch.shortfalls()
        if capture:
            capture.send(b"stop")
            entry["capture"] = capture.receive(CAPTURE_TIMEOUT_S)
            running.messages = entry["capture"].pop("messages")
            del entry["capture"]["event"]
        outcome = self._plan.family.outcome(cell, done, stand, witness.began_ns or 0)
        entry |= outcome.facts
        entry["noise"] = witness.noise | {"observer_cpu_percent": witness.observer_cpu_percent}
        entry["proofs"] = [*witness.proofs, *outcome.proofs]
        running.resources = witness.resources + outcome.resources
        # A loop that a fault cut off for good is what was to be measured: it never recovered.
        self._judge(running, None if watch.in_force() else outcome.broken, shortfalls)

    def _injection(self, cell: Cell, stand: Stand, witness: Witness) -> Injection | None:
        """Prepare the fault of a cell, which comes so long after the first cycle, warm-up included."""
        conditions, at_ms = cell.conditions, cell.fault_at_ms
        if conditions.fault is None or at_ms is None:
            return None
        delay_ms = self._plan.settings.warmup * cell.interval_ms + at_ms

        def restore() -> None:
            witness.follow()
            stand.apply(conditions)

        return Injection(conditions.fault, stand.hands(), delay_ms, restore)

    def _judge(self, running: Repetition, lost: str | None, shortfalls: list[str]) -> None:
        """Decide what a repetition is worth; noise is judged with its samples, in `_file`."""
        witness, contention = running.witness, running.cell.conditions.contention
        assert witness is not None
        dead = dict(witness.ailing)
        undisturbed_by = dead.pop(contention.service, None) if contention else None
        broken = [reason for reason in (lost, witness.failure, *dead.values()) if reason]
        problems = proof.problems(running.entry["proofs"])
        running.hopeless = bool(problems) and not broken and not undisturbed_by
        problems += [undisturbed_by] if undisturbed_by else shortfalls
        running.file("interrupted" if broken else "refused" if problems else "valid", broken or problems)

    def _capacity(self, cell: Cell) -> float | None:
        """Return what the broker takes, measured once for each set of conditions that asks for a part of it."""
        contention = cell.conditions.contention
        if contention is None or not contention.needs_capacity():
            return None
        if cell not in self._capacities:
            self._capacities[cell] = disturbance.capacity(self._stands[cell.placement], contention, self._plan.run)
            self.bundle.facts["broker_capacity_per_s"] = max(self._capacities.values())
        return self._capacities[cell]

    def _file(self, running: Repetition) -> None:
        entry = running.entry
        rows = samples(self._plan, running.cell, entry["repetition"], running.rows, running.ended_ns)
        entry["counts"] = counts(rows)
        entry.setdefault("noise", {})["lateness_us"] = noise.lateness(rows)
        if entry["validity"] == "valid":
            conditions = running.cell.conditions
            disturbed = conditions.contention is not None or conditions.fault is not None
            reasons = noise.reasons(entry["noise"], disturbed=disturbed)
            entry |= {"validity": "noisy" if reasons else "valid", "reasons": reasons}
        split = {}
        if self._plan.captured:
            split = self._plan.family.captured(rows, running.messages, entry["repetition"])
        self.bundle.add(entry, rows, running.resources, split)

    def _verdict(self) -> tuple[str, str, int]:
        """Return status, reason and exit code: complete where each repetition that was to be, or its re-run, counts."""
        entries = self._entries()
        counted = {(e["cell"], n) for e in entries if e["counted"] for n in (e["repetition"], e["rerun_of"])}
        missing = {(e["cell"], e["repetition"]) for e in entries if e["rerun_of"] is None} - counted
        if not missing:
            return "complete", "", 0
        first = next(entry for entry in entries if (entry["cell"], entry["repetition"]) in missing)
        if all(entry["validity"] == "refused" for entry in entries):
            return "refused", first["reasons"][0], RefusedError.exit_code
        return "partial", f"{len(missing)} repetitions do not count, the first because {first['reasons'][0]}", 1


def _with_cause(words: str, stand: Stand) -> str:
    """Add which services of the loop have stopped, unless the words name them: others fail because of those."""
    try:
        ills = stand.ailing()
    except (StandError, OSError):  # what went wrong keeps us from asking, too
        return words
    causes = [ill for service, ill in ills.items() if stand.role(service).detailed and not words.startswith(service)]
    return "; ".join([words, *causes])


def _disturbed(entry: dict[str, Any], disturbing: Disturbance, witness: Witness) -> list[str]:
    """End the contention, record what it did, and say where it fell short of what was asked."""
    contention = disturbing.contention
    if contention is None:
        return []
    try:
        account = disturbing.end()
    except StandError as error:
        return [str(error)]
    achieved = witness.achieved(account)
    entry["contention"] = contention.record(achieved, disturbing.job)
    shortfall = contention.shortfall(achieved, disturbing.job) if witness.failure is None else None
    return [shortfall] if shortfall else []


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

    def in_force(self) -> bool:
        """Return whether there was a fault."""
        return self.injection is not None and self.injection.done.in_force_ns is not None

    def excused(self, shortfalls: list[str], conditions: Conditions) -> list[str]:
        """What is left of a contention's shortfalls: it cannot go on through a service that is made to fail."""
        broken = conditions.fault.service if conditions.fault else None
        through = conditions.contention.through if conditions.contention else None
        return [] if self.in_force() and broken is not None and broken == through else shortfalls

    def shortfalls(self) -> list[str]:
        """What the fault did not do as asked."""
        return self.injection.done.problems() if self.injection else []

    def end_fault(self, entry: dict[str, Any]) -> None:
        """End the fault whatever ended the repetition, and say in its entry what is known of it."""
        if self.injection:
            self.injection.end()
            entry["fault"] = self.injection.done.record()
