# SPDX-License-Identifier: Apache-2.0
"""What the machine is: virtual, bare or unknown, its processor, its tuning; on machines that this one is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.observer.facts import Machine

X86 = "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu vme sse2{flag}\n"
ARM = "processor\t: 0\nBogoMIPS\t: 108.00\nCPU implementer\t: {0}\nCPU architecture: 8\nCPU part\t: {1}\n"
A72, UNKNOWN_PART = ARM.format("0x41", "0xd08"), ARM.format("0x61", "0x022")


def machine(root: Path, files: dict[str, str], kind: str = "aarch64") -> Machine:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Machine(root, kind)


@pytest.mark.parametrize(
    ("files", "virtual"),
    [
        ({"proc/cpuinfo": X86.format(flag=" hypervisor")}, True),
        ({"proc/cpuinfo": X86.format(flag="")}, False),
        ({"proc/cpuinfo": A72, "sys/hypervisor/type": "xen\n"}, True),
        ({"proc/cpuinfo": A72, "sys/class/dmi/id/sys_vendor": "QEMU\n"}, True),
        ({"proc/cpuinfo": A72, "sys/class/dmi/id/product_name": "KVM Virtual Machine\n"}, True),
        ({"proc/cpuinfo": A72, "proc/device-tree/compatible": "linux,dummy-virt\0"}, True),
        ({"proc/cpuinfo": A72, "proc/device-tree/hypervisor/compatible": "xen,xen-4.17\0"}, True),
        ({"proc/cpuinfo": A72, "proc/device-tree/fw-cfg@9020000/compatible": "qemu,fw-cfg-mmio\0"}, True),
        ({"proc/cpuinfo": A72, "proc/device-tree/model": "Raspberry Pi 4 Model B Rev 1.4\0"}, False),
        ({"proc/cpuinfo": A72, "sys/class/dmi/id/sys_vendor": "Ampere\n"}, None),
        ({"proc/cpuinfo": A72}, None),
        ({}, None),
    ],
)
def test_virtual_unless_known_is_unknown(tmp_path: Path, files: dict[str, str], virtual: bool | None) -> None:
    assert machine(tmp_path, files).virtual() is virtual


@pytest.mark.parametrize(
    ("files", "model"),
    [
        ({"proc/cpuinfo": X86.format(flag="")}, "AMD EPYC"),
        ({"proc/cpuinfo": A72}, "Cortex-A72"),
        (
            {"proc/cpuinfo": A72, "proc/device-tree/model": "Raspberry Pi 4 Model B\0"},
            "Cortex-A72 (Raspberry Pi 4 Model B)",
        ),
        ({"proc/cpuinfo": UNKNOWN_PART}, "implementer 0x61 part 0x22"),
        ({"proc/device-tree/model": "linux,dummy-virt\0"}, "linux,dummy-virt"),
        ({}, None),
    ],
)
def test_the_processor_has_a_name_or_none(tmp_path: Path, files: dict[str, str], model: str | None) -> None:
    assert machine(tmp_path, files).cpu_model() == model


@pytest.mark.parametrize(
    ("files", "version"),
    [
        ({"sys/fs/cgroup/cgroup.controllers": "cpu memory"}, "v2"),
        ({"sys/fs/cgroup/unified/cgroup.controllers": "", "sys/fs/cgroup/cpu/tasks": ""}, "hybrid"),
        ({"sys/fs/cgroup/cpu/tasks": ""}, "v1"),
        ({}, "none"),
    ],
)
def test_the_version_of_control_groups(tmp_path: Path, files: dict[str, str], version: str) -> None:
    assert machine(tmp_path, files).cgroup_version() == version


def test_budgets_per_group_show_in_version_1_files_or_the_configuration(tmp_path: Path) -> None:
    assert machine(tmp_path / "unknown", {}).rt_group_sched() is None
    assert machine(tmp_path / "v1", {"sys/fs/cgroup/cpu/cpu.rt_runtime_us": "950000"}).rt_group_sched() is True


def test_tuning_is_read_and_unknown_is_none(tmp_path: Path) -> None:
    cpus = "sys/devices/system/cpu"
    tuned = machine(tmp_path / "tuned", {
        f"{cpus}/cpu0/cpufreq/scaling_governor": "powersave\n", f"{cpus}/cpu1/cpufreq/scaling_governor": "powersave\n",
        f"{cpus}/smt/active": "1\n", f"{cpus}/isolated": "2-3\n",
        "proc/meminfo": "SwapTotal:  2048 kB\nSwapFree:  1024 kB\n",
        "proc/pressure/cpu": "some avg10=12.50 avg60=0 avg300=0 total=1\n",
    }).tuning()  # fmt: skip
    assert tuned["governors"] == ["powersave"]
    assert (tuned["smt"], tuned["isolated"], tuned["swap_used_bytes"]) == (True, "2-3", 2**20)
    assert tuned["pressure_percent"] == 12.5
    bare = machine(tmp_path / "bare", {}).tuning()
    assert (bare["governors"], bare["smt"], bare["pressure_percent"], bare["swap_used_bytes"]) == ([], None, None, 0)
