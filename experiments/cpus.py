# SPDX-License-Identifier: Apache-2.0
"""Which CPUs play the host, and which the Pi."""

from __future__ import annotations

import os


def cpu_sets() -> tuple[str, str]:
    """Part this machine's CPUs into "the host" (broker, client, what disturbs them) and "the Pi" (bridge, board).

    In the thesis the Pi is a machine of its own; sharing a CPU with the stress would make R its victim too.
    """
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    if len(cpus) == 1:
        return str(cpus[0]), str(cpus[0])
    own = 1 if len(cpus) < 4 else 2
    return ",".join(map(str, cpus[:-own])), ",".join(map(str, cpus[-own:]))
