# SPDX-License-Identifier: Apache-2.0
"""`cpus:LIST`: the only CPUs a service may run on, e.g. cpus:0,2-3."""

from __future__ import annotations

import os
import re
from typing import Any

from experiments.knobs import Knob, Service, State


class Affinity(Knob):
    """Set on every thread; in containers the engine's cpuset confines it as well."""

    kind = "cpus"
    field = "affinity"

    def check(self) -> None:
        """CPUs that this machine has."""
        if not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", self.argument) or not self._cpus() <= os.sched_getaffinity(0):
            here = ",".join(map(str, sorted(os.sched_getaffinity(0))))
            raise self.bad(f"cpus takes CPUs of this host ({here}), e.g. cpus:0")

    def compose(self) -> dict[str, Any]:
        """Compose's name for it."""
        return {"cpuset": self.argument}

    def settings(self) -> list[tuple[str, Any]]:
        """For plain processes; in a container it changes nothing more."""
        return [("cpus", sorted(self._cpus()))]

    def expected(self) -> Any:
        """Exactly these."""
        return tuple(sorted(self._cpus()))

    @classmethod
    def observed(cls, state: State) -> Any:
        """Give the CPUs of all threads, or every variant there is."""
        found = sorted({tuple(thread["cpus"]) for thread in state["threads"]})
        return found[0] if len(found) == 1 else found

    @classmethod
    def untouched(cls, service: Service) -> Any:
        """The side of the stand that the service is on."""
        return service.cpus

    def _cpus(self) -> set[int]:
        cpus: set[int] = set()
        for part in self.argument.split(","):
            first, _, last = part.partition("-")
            cpus |= set(range(int(first), int(last or first) + 1))
        return cpus
