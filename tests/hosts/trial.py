# SPDX-License-Identifier: Apache-2.0
"""One host test from end to end: prepare the disk, boot, take the steps, hold the proofs against the kernel, report."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from hosts import agreement, steps
from hosts.checkout import Checkout
from hosts.debian import ROOT, USERS
from hosts.disk import CHECKOUT, Disk
from hosts.errors import HostTestError
from hosts.guests import Guest
from hosts.machine import Machine, new_identity
from hosts.steps import Step

READBACK = Path(__file__).with_name("readback.py")
_READINGS = "/var/tmp/readings"
_PATIENCE = 15
"""A step that takes so many times longer than on a quiet host is given up."""

_MAKING_S = {True: 200, False: 1800}
_UPDATING_S = {True: 400, False: 1800}
"""At first, when every image is built; a few seconds later on."""
_KVM_GAIN = 8
"""How much faster a virtualised guest takes a step, roughly."""


@dataclass(frozen=True)
class Outcome:
    """How a step ended; `objection` is None where it is as it must be."""

    step: Step
    objection: str | None
    detail: str
    seconds: float

    @property
    def word(self) -> str:
        """For the table."""
        return "FAILED" if self.objection else "refused rightly" if self.step.refuses else "seen"


class Trial:
    """A guest and what is tried in it."""

    def __init__(self, guest: Guest, planned: list[Step]) -> None:
        self._guest = guest
        self._planned = planned
        stamp = dt.datetime.now(dt.UTC).strftime("%Y%m%dT%H%M%SZ")
        self._folder = ROOT / "results" / "host-test" / guest.name / stamp
        self._folder.mkdir(parents=True)
        self._log = self._folder / "log.txt"
        self._disk = Disk(guest, self._log)
        self._read_bytes = 0
        self._readings: list[agreement.Reading] = []
        self._began_s = time.monotonic()
        self._tree = Path()
        """The very checkout that goes into the guest: what runs on this side must not change meanwhile."""

    def run(self) -> int:
        """Returns the exit code: 0 where every step ended as it must."""
        checkout = Checkout.of(ROOT)
        planned = self._planned
        self._say(f"{self._guest.name}: {checkout.describe()}, {len(planned)} steps; all is kept in {self._folder}")
        with tempfile.TemporaryDirectory(prefix="host-test-") as scratch:
            self._tree = Path(scratch) / "checkout"
            checkout.copy_to(self._tree, self._log)
            identity = new_identity(Path(scratch))
            host_key = self._prepare(checkout, identity)
            carried = self._bundle_from_here(Path(scratch)) if any(step.carries for step in planned) else None
            machine = Machine(self._guest, self._disk, host_key, identity, self._folder / "console.txt")
            self._announce(machine, planned)
            with machine.running():
                self._say(f"booted ({self._elapsed()})")
                self._begin_reading(machine)
                if carried:
                    machine.send("tester", carried, steps.CARRIED)
                outcomes = [self._take(machine, index, step, len(planned)) for index, step in enumerate(planned, 1)]
        return self._report(outcomes, checkout)

    def _prepare(self, checkout: Checkout, identity: Path) -> str:
        if not self._disk.made:
            self._say(f"making its Debian from packages, once: about {_minutes(_MAKING_S[self._guest.native])}")
            self._disk.make()
        else:
            self._say("its Debian is here already")
        self._say(f"checkout, Python packages, images: at first about {_minutes(_UPDATING_S[self._guest.native])}")
        host_key = self._disk.update(checkout, identity.with_suffix(".pub").read_text())
        self._say(f"its disk is ready ({self._elapsed()})")
        return host_key

    def _bundle_from_here(self, scratch: Path) -> Path:
        """Give the bundle to be verified and replayed in the guest: BUNDLE, or else one that is made on this host."""
        if given := os.environ.get("BUNDLE"):
            if not (Path(given) / "bundle.json").is_file():
                raise HostTestError(f"BUNDLE={given}: it has no bundle.json", exit_code=2)
            return Path(given).resolve()
        self._say("a bundle made here, to be carried in")
        swaps = steps.SMALL.replace("INTERVALS=500", "INTERVALS=100").split()
        # Our own HOST and QUICK, which make hands on, are no variables of a run.
        environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKEOVERRIDES")}
        environment["PYTHONPATH"] = str(self._tree)
        with self._log.open("ab") as log:
            done = subprocess.run(
                [sys.executable, "-m", "experiments", "run", "1", *swaps], cwd=scratch, stdout=log, stderr=log,
                env=environment, stdin=subprocess.DEVNULL, check=False,
            )  # fmt: skip
        if done.returncode:
            raise HostTestError(f"no bundle could be made on this host to carry into the guest; see {self._log}")
        return (scratch / "results" / "latest").resolve()

    def _announce(self, machine: Machine, planned: list[Step]) -> None:
        gain = _KVM_GAIN if machine.accelerator == "kvm" else 1
        how = "virtualised by KVM" if gain > 1 else "emulated (no KVM boots its kernel here): its timing means nothing"
        expected_s = (self._guest.boot_s + sum(step.seconds for step in planned)) / gain
        self._say(f"booting, {how}; with its {len(planned)} steps about {_minutes(expected_s)} on a quiet host")

    def _begin_reading(self, machine: Machine) -> None:
        machine.send("root", READBACK, "/var/tmp")
        started = machine.run("root", f"nohup python3 /var/tmp/{READBACK.name} >{_READINGS} 2>&1 </dev/null &")
        if started.code:
            raise HostTestError(f"the kernel of the guest cannot be read: {started.said}")

    def _take(self, machine: Machine, index: int, step: Step, count: int) -> Outcome:
        label = f"[{index:2}/{count}] {step.name}"
        if sys.stdout.isatty():
            print(f"{label} … (about {step.seconds} s)", end="\r", flush=True)
        began_s = time.monotonic()
        home = f"{USERS[step.user]}/{CHECKOUT}"
        done = machine.run(step.user, f"export USER={step.user}; cd {home} && {step.command}", step.seconds * _PATIENCE)
        (self._folder / f"{index:02}.txt").write_text(f"{step.user}$ {step.command}\n{done.said}")
        objection, detail = step.objection(done.code, done.said), ""
        if objection is None and step.leaves_bundle:
            objection, detail = self._judge_bundle(machine, step, self._folder / f"{index:02}-bundle")
        seconds = time.monotonic() - began_s
        outcome = Outcome(step, objection, detail or _reason(step, done.said), seconds)
        self._say(f"{label}: {outcome.word}, {objection or outcome.detail} ({seconds:.0f} s; {self._elapsed()})")
        return outcome

    def _judge_bundle(self, machine: Machine, step: Step, bundle: Path) -> tuple[str | None, str]:
        """Fetch it, verify it on this host, and hold its proofs against the guest's kernel."""
        machine.fetch(step.user, f"{USERS[step.user]}/{CHECKOUT}/results/latest/", bundle)
        verified = subprocess.run(
            [sys.executable, "-m", "analysis", "verify", str(bundle)], cwd=self._tree, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        if verified.returncode:
            return f"its bundle is not verified here: {(verified.stdout + verified.stderr).strip()[-300:]}", ""
        self._gather(machine)
        agreed = agreement.compare(bundle, self._readings, all_read=not step.carries)
        if agreed.disagreements:
            return "; ".join(agreed.disagreements[:3]), ""
        for (service, knob), allowed in step.held.items():
            seen = agreed.seen.get(service, {}).get(knob)
            if seen not in allowed:
                return f"{service}: the kernel held {knob} {seen}, asked for {' or '.join(map(str, allowed))}", ""
        return None, agreed.describe()

    def _gather(self, machine: Machine) -> None:
        """Fetch what was read of the guest's kernel since the last time; whole lines only."""
        fresh, newline, _ = machine.read(_READINGS, self._read_bytes).rpartition(b"\n")
        self._read_bytes += len(fresh) + len(newline)
        self._readings += [json.loads(line) for line in fresh.splitlines()]
        with (self._folder / "readings.jsonl").open("ab") as kept:
            kept.write(fresh + newline)

    def _report(self, outcomes: list[Outcome], checkout: Checkout) -> int:
        failed = [outcome for outcome in outcomes if outcome.objection]
        verdict = (
            f"{len(failed)} of {len(outcomes)} steps FAILED"
            if failed
            else f"all {len(outcomes)} steps are as they must be"
        )
        width = max(len(outcome.step.name) for outcome in outcomes)
        table = [f"{'step':{width}}  {'outcome':15}  {'s':>4}  detail"]
        for outcome in outcomes:
            began = f"{outcome.step.name:{width}}  {outcome.word:15}  {outcome.seconds:4.0f}"
            table.append(f"{began}  {outcome.objection or outcome.detail}")
        said = "\n".join([f"{self._guest.name}: {verdict} ({checkout.describe()}; {self._elapsed()})", "", *table])
        (self._folder / "table.txt").write_text(said + "\n")
        print(f"\n{said}")
        return int(bool(failed))

    def _say(self, line: str) -> None:
        print(f"\033[K{line}" if sys.stdout.isatty() else line, flush=True)

    def _elapsed(self) -> str:
        seconds = round(time.monotonic() - self._began_s)
        return f"{seconds // 60}:{seconds % 60:02} min"


def _reason(step: Step, said: str) -> str:
    """Of a refusal its own words; of what went well nothing."""
    lines = [line.strip() for line in said.splitlines() if line.strip().startswith("testbed:")]
    return lines[-1] if step.refuses and lines else "as expected"


def _minutes(seconds: float) -> str:
    return f"{max(1, round(seconds / 60))} min"
