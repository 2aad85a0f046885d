# SPDX-License-Identifier: Apache-2.0
"""Watches one repetition: proofs at its start and end, resources at 10 Hz in between, and what else the host did."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import Any

from experiments import knobs, proof
from experiments.cells import Conditions
from experiments.contentions import Achieved, Second
from experiments.errors import StandError
from experiments.knobs.tcp import NoDelay
from experiments.observer.sampler import Scope
from experiments.observer.state import State, Unreadable
from experiments.placements import Stand
from experiments.proof import Proof
from experiments.roles import OBSERVER


@dataclass
class Witness:
    """Begin when the stand answers, end when the control loop is done."""

    stand: Stand
    conditions: Conditions
    proofs: list[Proof] = field(default_factory=list)
    resources: list[dict[str, Any]] = field(default_factory=list)
    noise: dict[str, Any] = field(default_factory=dict)
    cpu_s: dict[str, float] = field(default_factory=dict)
    observer_cpu_percent: float = 0.0
    began_ns: int | None = None
    """When the first cycle was about to start; None: it did not come to that."""
    failure: str | None = None
    """Why this repetition has no witness: the observer died, or fell silent."""
    ailing: dict[str, str] = field(default_factory=dict)
    """What was wrong at the end with services that should run, by service."""
    _sampled: dict[str, int] = field(default_factory=dict)
    """The first process of each service that the observer samples."""
    _processes: dict[str, int] = field(default_factory=dict)
    _seconds: tuple[Second, ...] = ()
    _longest_gap_ms: float | None = None
    _began_s: float = 0.0
    _elapsed_s: float = 0.0

    def begin(self) -> None:
        """Start sampling and take the first proofs; whatever fails costs the proofs, not the cycles under way."""
        self.began_ns = time.monotonic_ns()
        self._began_s = time.monotonic()
        try:
            pids = self.stand.pids()
            scope = Scope(
                detailed=[role.name for role in self.stand.roles if role.detailed],
                networks=[role.name for role in self.stand.roles if role.retransmits],
                cpus=_cpus(self.stand), pressed=list(self.stand.cpus("host")),
            )  # fmt: skip
            self._ask(do="start", services=pids, scope=asdict(scope), containers=self.stand.containers)
            self._sampled = pids
            self.proofs = self._prove(pids)
        except (StandError, OSError) as error:
            self.failure = str(error)

    def follow(self) -> None:
        """Have the services sampled on that were started anew; raise StandError."""
        pids = self.stand.pids()
        anew = {name: pid for name, pid in pids.items() if pid != self._sampled.get(name)}
        if anew and self.failure is None:
            self._ask(do="follow", services=anew, containers=self.stand.containers)
        self._sampled = pids

    def end(self) -> None:
        """Take the proofs again, so that nothing changed on the way, and stop sampling.

        Not of connections: a control loop that lost its own has none.
        """
        self._elapsed_s = time.monotonic() - self._began_s
        try:
            self.ailing = self._look()
            if self.failure is None and not self.ailing:
                self.proofs = _worst(self.proofs, self._prove(self.stand.pids()))
            if self.failure is None and OBSERVER.name not in self.ailing:
                self._stop()
        except (StandError, OSError) as error:
            self.failure = str(error)
        self.noise = self._noise()

    def _look(self) -> dict[str, str]:
        ailing = self.stand.ailing()
        contention = self.conditions.contention
        if contention is not None and contention.once:  # it ends by itself
            ailing.pop(contention.service, None)
        return ailing

    def _stop(self) -> None:
        contention = self.conditions.contention
        sampled = self._ask(do="stop", pressing=contention.service if contention else None)
        self._elapsed_s = time.monotonic() - self._began_s
        self.resources, self.cpu_s = sampled["rows"], sampled["cpu_s"]
        self._seconds = tuple(Second(*each) for each in sampled.get("seconds", ()))
        self._longest_gap_ms = sampled.get("longest_gap_ms")
        self.observer_cpu_percent = round(100 * sampled.get("observer_cpu_s", 0.0) / self._elapsed_s, 3)

    def achieved(self, account: dict[str, Any]) -> Achieved:
        """Return what the contention's service did in this repetition; `account` is what it tells itself."""
        contention = self.conditions.contention
        service = contention.service if contention else ""
        cpu_s = self.cpu_s.get(service, 0.0)
        # What it did not get because others took it is noise, and judged as such; it is not held against it here.
        free_cpu_s = cpu_s + sum(second.idle_cpu_s for second in self._seconds)
        return Achieved(cpu_s, free_cpu_s, self._processes.get(service, 0), account, self._seconds)

    def _ask(self, **request: Any) -> dict[str, Any]:
        return self.stand.channel(OBSERVER.name).ask(**request)

    def _prove(self, pids: dict[str, int]) -> list[Proof]:
        configurations = self.stand.configurations()
        files = {name: configuration.path for name, configuration in configurations.items()}
        states: dict[str, State | Unreadable] = self._ask(
            do="prove", services=pids, containers=self.stand.containers, files=files, kernel_files=knobs.kernel_files()
        )["services"]
        self._processes = {name: 0 if "error" in state else len(state["threads"]) for name, state in states.items()}
        chosen = dict(self.conditions.knobs)
        proofs = [
            entry
            for name, state in states.items()
            for service in [self.stand.service(name)]
            for entry in (
                *proof.of_service(service, state, chosen.get(name, ())),
                *proof.of_rt_budget(service, state, self.stand.rt_budget_us(self.conditions, name)),
                *proof.of_memory(service, state, self.stand.memory_limit_bytes(name)),
            )
        ]
        for name, configuration in configurations.items():
            proofs += proof.of_configuration(name, states[name], configuration.text)
        return proofs

    def _noise(self) -> dict[str, Any]:
        host = [row for row in self.resources if row["service"] == "host"]
        if not host or "host" not in self.cpu_s:
            return {"steal_percent": None, "foreign_cpu_percent": None, "observer_gap_ms": self._longest_gap_ms}
        cpus = len(_cpus(self.stand))
        ours_s = sum(seconds for name, seconds in self.cpu_s.items() if name != "host")
        ours_s += self.observer_cpu_percent * self._elapsed_s / 100
        steal = sum(row.get("steal_percent", 0.0) for row in host) / len(host) / cpus
        foreign = max(0.0, 100 * (self.cpu_s["host"] - ours_s) / (self._elapsed_s * cpus))
        return {
            "steal_percent": round(steal, 2),
            "foreign_cpu_percent": round(foreign, 2),
            "observer_gap_ms": self._longest_gap_ms,
        }


def _cpus(stand: Stand) -> list[int]:
    """The CPUs of both sides of the stand; what happens on others is not noise."""
    return sorted({*stand.cpus("host"), *stand.cpus("pi")})


def _worst(before: list[Proof], after: list[Proof]) -> list[Proof]:
    """Of two proofs of one thing the one that does not hold, by name: a service that ended has but one, of that."""
    failed = {(now["service"], now["knob"]): now for now in after if not now["holds"] and now["knob"] != NoDelay.field}
    kept = [failed.pop((proof["service"], proof["knob"]), proof) for proof in before]
    return [*kept, *failed.values()]
