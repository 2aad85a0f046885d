# SPDX-License-Identifier: Apache-2.0
"""`quota:F`: at most F CPUs' worth of time (from 0.01); the engine has been seen to drop it silently."""

from __future__ import annotations

import re
from typing import Any

from experiments.cpus import machine_cpus
from experiments.knobs import Knob, Service
from experiments.observer.state import State


class Quota(Knob):
    """cpu.cfs_quota_us / cpu.cfs_period_us, or cpu.max."""

    kind = "quota"
    field = "quota"
    containers_only = True

    def check(self) -> None:
        """As Docker takes it."""
        cpus = len(machine_cpus())
        if not re.fullmatch(r"[0-9]{1,5}(\.[0-9]{1,9})?", self.argument) or not 0.01 <= float(self.argument) <= cpus:
            raise self.bad(f"quota takes CPUs from 0.01 to {cpus}, e.g. quota:0.5")

    def compose(self) -> dict[str, Any]:
        """Compose's name for it; a string, for Compose 2.0 dropped some numbers (docker/compose#9268)."""
        return {"cpus": self.argument}

    def expected(self) -> Any:
        """In CPUs."""
        return round(float(self.argument), 3)

    @classmethod
    def observed(cls, state: State) -> Any:
        """In CPUs; None: no limit."""
        return None if state["quota"] is None else round(state["quota"], 3)

    @classmethod
    def untouched(cls, service: Service) -> Any:  # noqa: ARG003
        """No limit."""
        return None
