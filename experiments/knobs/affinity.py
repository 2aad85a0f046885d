# SPDX-License-Identifier: Apache-2.0
"""`cpus:LIST`: the only CPUs a service may run on, e.g. cpus:0,2-3."""

from __future__ import annotations

import re
from typing import Any

from experiments.cpus import machine_cpus
from experiments.knobs import Knob, Service
from experiments.observer.state import State


class Affinity(Knob):
    """Set on every thread; in containers the engine's cpuset confines it as well."""

    kind = "cpus"
    field = "affinity"

    def check(self) -> None:
        """CPUs that this machine has, each range from the lower to the higher."""
        here = set(machine_cpus())
        well_formed = re.fullmatch(r"[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*", self.argument)
        if not well_formed or not all(part and part <= here for part in self._parts()):
            raise self.bad(f"cpus takes CPUs of this host ({','.join(map(str, sorted(here)))}), e.g. cpus:0")

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
        """Return the CPUs of all threads, or every variant there is."""
        variants = sorted({tuple(thread["cpus"]) for thread in state["threads"]})
        return variants[0] if len(variants) == 1 else variants

    @classmethod
    def untouched(cls, service: Service) -> Any:
        """The side of the stand that the service is on."""
        return service.cpus

    def _cpus(self) -> set[int]:
        return set().union(*self._parts())

    def _parts(self) -> list[set[int]]:
        bounds = [part.partition("-") for part in self.argument.split(",")]
        return [set(range(int(first), int(last or first) + 1)) for first, _, last in bounds]
