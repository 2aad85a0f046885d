# SPDX-License-Identifier: Apache-2.0
"""Watches one repetition: proofs at its start and end, resources at 10 Hz in between, and what else the host did."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from experiments import proof
from experiments.contentions import Achieved
from experiments.errors import StandError
from experiments.knobs.tcp import NoDelay
from experiments.placements import Stand
from experiments.plan import Conditions
from experiments.proof import Proof

DETAILED = ["broker", "control-loop", "pi", "board"]
"""Services whose threads are sampled one by one; of what disturbs them the group's sum is enough."""


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
    _processes: dict[str, int] = field(default_factory=dict)
    _began_s: float = 0.0
    _elapsed_s: float = 0.0

    def begin(self) -> None:
        """Start sampling and take the first proofs."""
        pids = self.stand.pids()
        ask = self.stand.channel("observer").ask
        ask(do="start", services=pids, detailed=DETAILED, containers=self.stand.containers)
        self._began_s = time.monotonic()
        self.proofs = self._prove(pids)

    def end(self) -> None:
        """Take the proofs again, so that nothing changed on the way, and stop sampling.

        Not of connections: the control loop has closed its own by now.
        """
        ask = self.stand.channel("observer").ask
        try:
            after = self._prove(self.stand.pids())
        except StandError:  # a service died; the control loop has noticed, and the run goes on with the next repetition
            after = self.proofs
        sampled = ask(do="stop")
        self._elapsed_s = time.monotonic() - self._began_s
        # By name, for a service that ended meanwhile has one proof only: that it does not run.
        failed = {
            (now["service"], now["knob"]): now for now in after if not now["holds"] and now["knob"] != NoDelay.field
        }
        kept = [failed.pop((before["service"], before["knob"]), before) for before in self.proofs]
        self.proofs = [*kept, *failed.values()]
        self.resources, self.cpu_s = sampled["rows"], sampled["cpu_s"]
        self.observer_cpu_percent = round(100 * sampled.get("observer_cpu_s", 0.0) / self._elapsed_s, 3)
        self.noise = self._noise()

    def achieved(self, told: dict[str, Any]) -> Achieved:
        """Give what the contention's service did in this repetition; `told` is its own account."""
        contention = self.conditions.contention
        service = contention.service if contention else ""
        cpus = len(self.stand.service("broker").cpus)
        taken_s = sum(self.cpu_s.get(name, 0.0) for name in ("broker", "control-loop"))
        # What others took is noise, and judged as such; here it only must not be held against the contention.
        others = (self.noise["foreign_cpu_percent"] or 0.0) + (self.noise["steal_percent"] or 0.0)
        taken_s += others / 100 * self._elapsed_s * _cpu_count(self.stand)
        free_s = max(0.0, cpus * self._elapsed_s - taken_s)
        return Achieved(self.cpu_s.get(service, 0.0), free_s, self._processes.get(service, 0), told)

    def _prove(self, pids: dict[str, int]) -> list[Proof]:
        states = self.stand.channel("observer").ask(do="prove", services=pids, containers=self.stand.containers)[
            "services"
        ]
        self._processes = {name: len(state.get("threads", ())) for name, state in states.items()}
        asked = dict(self.conditions.knobs)
        proofs = [
            entry
            for name, state in states.items()
            for entry in (
                *proof.of_service(self.stand.service(name), state, asked.get(name, ())),
                *proof.of_rt_budget(self.stand.service(name), state, self.stand.rt_budget_us(self.conditions, name)),
            )
        ]
        return proofs + proof.of_configuration(states["broker"], self.stand.broker_configuration())

    def _noise(self) -> dict[str, Any]:
        host = [row for row in self.resources if row["service"] == "host"]
        if not host or "host" not in self.cpu_s:
            return {"steal_percent": None, "foreign_cpu_percent": None}
        ours_s = sum(seconds for name, seconds in self.cpu_s.items() if name != "host")
        ours_s += self.observer_cpu_percent * self._elapsed_s / 100
        capacity_s = self._elapsed_s * _cpu_count(self.stand)
        steal = sum(row.get("steal_percent", 0.0) for row in host) / len(host) / _cpu_count(self.stand)
        return {
            "steal_percent": round(steal, 2),
            "foreign_cpu_percent": round(max(0.0, 100 * (self.cpu_s["host"] - ours_s) / capacity_s), 2),
        }


def _cpu_count(stand: Stand) -> int:
    return len({*stand.service("broker").cpus, *stand.service("pi").cpus})
