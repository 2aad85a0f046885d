# SPDX-License-Identifier: Apache-2.0
"""Which CPUs play the host, and which the Pi."""

from __future__ import annotations

from experiments import engine
from experiments.observer.facts import affinity


def machine_cpus() -> list[int]:
    """Return the CPUs of the machine that the stand runs on: ours, or that of an engine which is elsewhere."""
    return engine.far_cpus() or affinity()


def cpu_sets(cpus: list[int] | None = None) -> tuple[str, str]:
    """Part a machine's CPUs into "the host" (broker, client, what disturbs them) and "the Pi" (bridge, board).

    In the thesis the Pi is a machine of its own; sharing a CPU with the stress would make R its victim too.
    """
    cpus = sorted(machine_cpus() if cpus is None else cpus)
    if len(cpus) == 1:
        return str(cpus[0]), str(cpus[0])
    of_the_pi = 1 if len(cpus) < 4 else 2
    return ",".join(map(str, cpus[:-of_the_pi])), ",".join(map(str, cpus[-of_the_pi:]))
