# SPDX-License-Identifier: Apache-2.0
"""Control groups of versions 1, hybrid and 2 behind one set of names; see cgroups(7)."""

from __future__ import annotations

import contextlib
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")

_V1_NO_LIMIT = 1 << 62
"""Version 1 says the largest number of whole pages there is."""

PARENT_BUDGET_US = 900_000
"""For the group above all containers; by default real-time tasks may have 950 ms of each second (sched(7))."""


class Cgroup:
    """The group that a process is in: its folders by controller, whatever the version."""

    def __init__(self, pid: int) -> None:
        self._v1: dict[str, Path] = {}
        self._v2: Path | None = None
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                self._v2 = _first(ROOT / path.lstrip("/"), ROOT / "unified" / path.lstrip("/"))
                continue
            for controller in controllers.split(","):
                folder = _first(ROOT / controllers / path.lstrip("/"), ROOT / controller / path.lstrip("/"))
                if folder is not None:
                    self._v1[controller] = folder

    def folder(self, controller: str) -> Path | None:
        """Where a controller's files are; None where the kernel has it in neither version."""
        return self._v1.get(controller, self._v2)

    def unified(self) -> Path | None:
        """The version 2 folder, which also hybrid hosts have; pressure is only there."""
        return self._v2

    def is_v1(self, controller: str) -> bool:
        """Return whether a controller is mounted the old way."""
        return controller in self._v1

    def pids(self) -> list[int]:
        """Every process of the group."""
        folder = self.folder("cpu")
        return [] if folder is None else [int(line) for line in (folder / "cgroup.procs").read_text().split()]

    def cpu_weight(self) -> tuple[str, int] | None:
        """CPU weight as `shares` (version 1, 1024 by default) or `weight` (version 2, 100); None: it has none.

        Raises OSError where it has one that cannot be read, for that is not the same.
        """
        name, file = ("shares", "cpu.shares") if self.is_v1("cpu") else ("weight", "cpu.weight")
        folder = self.folder("cpu")
        if folder is None or not (folder / file).exists():
            return None
        value = _whole(folder / file)
        if value is None:
            raise OSError(f"{folder / file} cannot be read")
        return name, value

    def cpu_quota(self) -> float | None:
        """CPUs' worth of time allowed; None: no limit."""
        if self.is_v1("cpu"):
            quota = _whole(self._v1["cpu"] / "cpu.cfs_quota_us")
            period = _whole(self._v1["cpu"] / "cpu.cfs_period_us")
            return quota / period if quota is not None and period and quota > 0 else None
        try:
            quota_text, period_text = (self._v2 / "cpu.max").read_text().split() if self._v2 else ("max", "1")
        except OSError:
            return None
        return None if quota_text == "max" else int(quota_text) / int(period_text)

    def memory_limit_bytes(self) -> int | None:
        """What the group may take; None: no limit."""
        name = "memory.limit_in_bytes" if self.is_v1("memory") else "memory.max"
        folder = self.folder("memory")
        limit = _whole(folder / name) if folder else None  # version 2 says `max`
        return None if limit is None or limit >= _V1_NO_LIMIT else limit

    def rt_budget_us(self) -> int | None:
        """Real-time budget a second; None: this kernel keeps none per group (or version 2 hides it)."""
        return _whole(self._v1["cpu"] / "cpu.rt_runtime_us") if self.is_v1("cpu") else None

    def set_rt_budget(self, budget_us: int, above_us: int) -> None:
        """Give the group a budget, and each group above it at least `above_us`. Raises OSError."""
        for file in self.rt_files_above():
            if (_whole(file) or 0) < above_us:
                file.write_text(str(above_us))
        (self._v1["cpu"] / "cpu.rt_runtime_us").write_text(str(budget_us))

    def rt_files_above(self) -> list[Path]:
        """Return the budgets of the groups above, which outlive ours: the highest first, without the root's."""
        if not self.is_v1("cpu"):
            return []
        above = [group for group in self._v1["cpu"].parents if ROOT in group.parents and group.parent != ROOT]
        return [group / "cpu.rt_runtime_us" for group in reversed(above)]


def lower_rt_budgets() -> list[Path]:
    """Take back the budgets that a killed run gave to the groups above its containers; returns those it lowered.

    Only version 1 has them. A budget of exactly what our observer gives is ours: by default there is none.
    """
    lowered = []
    for file in sorted(ROOT.glob("cpu*/*/cpu.rt_runtime_us")):
        with contextlib.suppress(OSError):
            if file.read_text().strip() == str(PARENT_BUDGET_US):
                file.write_text("0")
                lowered.append(file)
    return lowered


def _first(*folders: Path) -> Path | None:
    return next((folder for folder in folders if folder.is_dir()), None)


def _whole(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None
