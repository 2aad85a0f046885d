# SPDX-License-Identifier: Apache-2.0
"""What the machine is and how it is tuned, read where the containers run. Unknown is None, never "no"."""

from __future__ import annotations

import contextlib
import gzip
import os
import platform
import re
import time
from pathlib import Path
from typing import Any

_HYPERVISORS = ("qemu", "kvm", "vmware", "innotek", "virtualbox", "xen", "bochs", "parallels", "bhyve", "openstack")
"""As firmware names its maker or product; from systemd's src/basic/virt.c."""

_ARM_PARTS = {
    (0x41, 0xD03): "Cortex-A53", (0x41, 0xD04): "Cortex-A35", (0x41, 0xD05): "Cortex-A55", (0x41, 0xD07): "Cortex-A57",
    (0x41, 0xD08): "Cortex-A72", (0x41, 0xD09): "Cortex-A73", (0x41, 0xD0A): "Cortex-A75", (0x41, 0xD0B): "Cortex-A76",
    (0x41, 0xD0C): "Neoverse-N1", (0x41, 0xD40): "Neoverse-V1", (0x41, 0xD49): "Neoverse-N2",
    (0x41, 0xD4F): "Neoverse-V2", (0x41, 0xD8E): "Neoverse-N3", (0x41, 0xD84): "Neoverse-V3",
}  # fmt: skip
"""Implementer and part of MIDR_EL1, as lscpu names them (util-linux, sys-utils/lscpu-arm.c)."""


class Machine:
    """The machine whose files are under `root`; the real one but for tests."""

    def __init__(self, root: Path = Path("/"), machine: str | None = None) -> None:
        self._root = root
        self._machine = machine or platform.machine()

    def facts(self) -> dict[str, Any]:
        """Return what identifies the machine to a reader of its results: `host` in bundle.json."""
        return {
            "kernel": platform.release(),
            "machine": self._machine,
            "os": self.os_name(),
            "cpus": len(affinity()),
            "cpu_list": affinity(),
            "cpu_model": self.cpu_model(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "cgroup": self.cgroup_version(),
            "rt_group_sched": self.rt_group_sched(),
            "psi": (self._root / "proc/pressure/cpu").exists(),
            "virtual": self.virtual(),
            "boot_id": self._read("proc/sys/kernel/random/boot_id").strip() or None,
        }

    def tuning(self) -> dict[str, Any]:
        """Return what may add noise, as the kernel's page on real-time configuration lists it."""
        governors = self._each("sys/devices/system/cpu/cpu*/cpufreq/scaling_governor")
        return {
            "governors": sorted({text.strip() for text in governors}),
            "smt": self._flag("sys/devices/system/cpu/smt/active"),
            "isolated": self._read("sys/devices/system/cpu/isolated").strip(),
            "swap_used_bytes": self._swap_used_bytes(),
            "pressure_percent": self._pressure_percent(),
            "rt_runtime_us": _whole(self._read("proc/sys/kernel/sched_rt_runtime_us")),
            "memory_controller": self.memory_controller(),
            "steal_percent": self.steal_percent(),
        }  # fmt: skip

    def steal_percent(self, watched_s: float = 1.0) -> float | None:
        """Watch what share of all CPUs' time the hypervisor steals; None where the kernel does not count it."""
        before = self._stolen_s()
        time.sleep(watched_s if before is not None else 0)
        after = self._stolen_s()
        if before is None or after is None:
            return None
        return round(100 * (after - before) / watched_s / (os.cpu_count() or 1), 2)

    def os_name(self) -> str | None:
        """Return the distribution, as it calls itself."""
        match = re.search(r'^PRETTY_NAME="?([^"\n]*)', self._read("etc/os-release"), re.MULTILINE)
        return match[1] if match else None

    def cgroup_version(self) -> str:
        """Return `v2`, `hybrid` (v1 controllers beside a v2 tree), `v1` or `none`."""
        tree = self._root / "sys/fs/cgroup"
        if (tree / "cgroup.controllers").exists():
            return "v2"
        if (tree / "unified" / "cgroup.controllers").exists():
            return "hybrid"
        return "v1" if (tree / "cpu").exists() else "none"

    def memory_controller(self) -> bool:
        """Return whether memory limits can hold; Raspberry Pi OS boots without them."""
        tree = self._root / "sys/fs/cgroup"
        return (tree / "memory").exists() or "memory" in self._read("sys/fs/cgroup/cgroup.controllers").split()

    def rt_group_sched(self) -> bool | None:
        """Are real-time budgets per group in force? None: this machine does not tell."""
        if list((self._root / "sys/fs/cgroup").glob("cpu*/cpu.rt_runtime_us")):
            return True
        by_trial = _rt_group_by_trial() if self._root == Path("/") and self.cgroup_version() == "v2" else None
        return self._rt_group_configured() if by_trial is None else by_trial

    def virtual(self) -> bool | None:
        """Is this a virtual machine? None: neither CPU, firmware nor device tree tells."""
        info = self._read("proc/cpuinfo")
        if re.search(r"^flags\s*:.*\bhypervisor\b", info, re.MULTILINE) or self._read("sys/hypervisor/type").strip():
            return True
        if re.search(r"^flags\s*:", info, re.MULTILINE):
            return False  # x86 hypervisors set the flag
        firmware = " ".join(self._each("sys/class/dmi/id/[sp]*_[vn]*")).lower()
        if any(name in firmware for name in _HYPERVISORS):
            return True
        tree = self._root / "proc/device-tree"
        if (tree / "hypervisor").exists() or list(tree.glob("fw-cfg@*")) or "dummy-virt" in self._compatible():
            return True
        return False if self._device_tree_model() else None

    def cpu_model(self) -> str | None:
        """Return the processor's name, on arm64 from its part number and the board's device tree."""
        info = self._read("proc/cpuinfo")
        match = re.search(r"^model name\s*:\s*(.+)$", info, re.MULTILINE | re.IGNORECASE)
        if match:
            return match[1].strip()
        part, board = _arm_part(info), self._device_tree_model()
        return " ".join(filter(None, [part, f"({board})" if part and board else board])) or None

    def _device_tree_model(self) -> str:
        return self._read("proc/device-tree/model").strip("\0\n ")

    def _compatible(self) -> str:
        return self._read("proc/device-tree/compatible")

    def _rt_group_configured(self) -> bool | None:
        for name in ("proc/config.gz", f"boot/config-{platform.release()}"):
            with contextlib.suppress(OSError):
                content = (self._root / name).read_bytes()
                return b"CONFIG_RT_GROUP_SCHED=y" in (gzip.decompress(content) if name.endswith("gz") else content)
        return None

    def _stolen_s(self) -> float | None:
        match = re.search(r"^cpu +(?:\d+ +){7}(\d+)", self._read("proc/stat"), re.MULTILINE)
        return int(match[1]) / os.sysconf("SC_CLK_TCK") if match else None

    def _swap_used_bytes(self) -> int:
        sizes = dict(re.findall(r"^(Swap\w+):\s+(\d+) kB", self._read("proc/meminfo"), re.MULTILINE))
        return 1024 * (int(sizes.get("SwapTotal", 0)) - int(sizes.get("SwapFree", 0)))

    def _pressure_percent(self) -> float | None:
        match = re.search(r"^some avg10=([\d.]+)", self._read("proc/pressure/cpu"))
        return float(match[1]) if match else None

    def _flag(self, name: str) -> bool | None:
        return {"1": True, "0": False}.get(self._read(name).strip())

    def _each(self, pattern: str) -> list[str]:
        return [self._read(str(path.relative_to(self._root))) for path in sorted(self._root.glob(pattern))]

    def _read(self, name: str) -> str:
        try:
            return (self._root / name).read_text(errors="replace")
        except OSError:
            return ""


def affinity() -> list[int]:
    """Return the CPUs that this process may run on."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def _arm_part(info: str) -> str | None:
    """Name the first processor of an arm64 /proc/cpuinfo; by its numbers where we know no name."""
    numbers = dict(re.findall(r"^CPU (implementer|part)\s*:\s*(0x[0-9a-f]+)", info, re.MULTILINE))
    if len(numbers) < 2:
        return None
    implementer, part = (int(numbers[name], 16) for name in ("implementer", "part"))
    return _ARM_PARTS.get((implementer, part), f"implementer {implementer:#x} part {part:#x}")


def _rt_group_by_trial() -> bool | None:
    """Become SCHED_FIFO for a moment: with CAP_SYS_NICE, in a group below the root, only a missing budget forbids it.

    Version 2 control groups show no budgets, and kernels since 6.16 may have them compiled in but disabled at boot.
    """
    status, group = Path("/proc/self/status").read_text(), Path("/proc/self/cgroup").read_text()
    held = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    if held is None or not int(held[1], 16) >> 23 & 1 or re.search(r"^0::/$", group, re.MULTILINE):
        return None
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        return True
    os.sched_setscheduler(0, *before)
    return False


def _whole(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None
