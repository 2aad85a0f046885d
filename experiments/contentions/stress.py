# SPDX-License-Identifier: Apache-2.0
"""Contentions by the program `stress`: busy CPUs, memory and file system."""

from __future__ import annotations

import shutil
from typing import Any, ClassVar

from experiments.contentions import A_TENTH, Achieved, Contention, Second
from experiments.errors import BadInputError
from experiments.roles import Role

HALF = 0.5
"""A contention for CPU that got less than this part of what was free did not disturb as asked."""


class Stress(Contention):
    """Runs all the time; `workers` processes besides the first."""

    role = Role("stressor")
    workers: ClassVar[int]
    words: ClassVar[tuple[str, ...]]
    busy: ClassVar[bool] = True

    def arguments(self) -> list[str]:
        """The options of stress(1)."""
        return list(self.words)

    def host_program(self) -> list[str]:
        """The machine's own stress."""
        if shutil.which("stress") is None:
            raise BadInputError(
                "CONTENTION", self.kind, "stress is not installed on this host; install it, or PLACEMENT=docker"
            )
        return ["stress"]

    def shortfall(self, achieved: Achieved, job: dict[str, Any] | None) -> str | None:
        """All workers must be there, and must have had the CPU."""
        del job
        if achieved.processes < self.workers + 1:
            return f"stress runs {achieved.processes - 1} of {self.workers} workers; is there memory for them?"
        if self.busy and achieved.cpu_s < HALF * achieved.free_cpu_s:
            return f"stress used {achieved.cpu_s:.2f} of {achieved.free_cpu_s:.2f} free CPU seconds"
        idle = [second for second in achieved.seconds if self._idle(second)]
        if self.busy and len(idle) > A_TENTH * len(achieved.seconds):
            return f"stress used less than half of the free CPU in {len(idle)} of {len(achieved.seconds)} seconds"
        return None

    def _idle(self, second: Second) -> bool:
        """No more can be expected than one CPU a worker."""
        free_cpu_s = min(second.cpu_s + second.idle_cpu_s, self.workers * second.passed_s)
        return second.cpu_s < HALF * free_cpu_s


class Cpu(Stress):
    """The thesis' arguments, but for its `--timeout 4000s`: it must last as long as the run."""

    kind = "cpu"
    workers = 11
    words = ("--cpu", "3", "--io", "3", "--vm", "5", "--vm-bytes", "128M")
