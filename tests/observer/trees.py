# SPDX-License-Identifier: Apache-2.0
"""File systems that look like /proc and /sys/fs/cgroup of hosts which this one is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.observer import cgroup, sampler

PID = 4242
GROUP = "docker/0123abcd"
SCOPE = "system.slice/docker-0123abcd.scope"

V1_PROC = f"12:cpu,cpuacct:/{GROUP}\n11:memory:/{GROUP}\n10:cpuset:/{GROUP}\n1:name=systemd:/{GROUP}\n"
HYBRID_PROC = f"9:name=systemd:/\n4:memory:/{GROUP}\n2:cpuacct:/{GROUP}\n1:cpu:/{GROUP}\n0::/{GROUP}\n"
V2_PROC = f"0::/{SCOPE}\n"

V1_CPU = {
    "cpu.shares": "1024\n", "cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n", "cpu.rt_runtime_us": "0\n",
    "cgroup.procs": "4242\n4243\n",
    "cpu.stat": "nr_periods 40\nnr_throttled 12\nthrottled_time 345678901\nnr_bursts 0\nburst_time 0\n",
}  # fmt: skip
V1_USAGE = {"cpuacct.usage": "1234567890\n"}
V1_MEMORY = {"memory.usage_in_bytes": "7340032\n", "memory.limit_in_bytes": "9223372036854771712\n"}
PRESSURE = "some avg10=25.29 avg60=12.43 avg300=26.39 total=680838785\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
V2_ALL = {
    "cpu.weight": "100\n", "cpu.max": "max 100000\n", "cgroup.procs": "4242\n4243\n", "memory.current": "7340032\n",
    "memory.max": "max\n",
    "cpu.stat": "usage_usec 1234567\nuser_usec 1000000\nsystem_usec 234567\nnr_periods 40\nnr_throttled 12\n"
    "throttled_usec 345678\nnr_bursts 0\nburst_usec 0\n",
    "cpu.pressure": PRESSURE,
}  # fmt: skip


class Tree:
    """A fake host: `proc` and `cgroup` are folders of the test."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.proc, self.cgroup = folder / "proc", folder / "cgroup"
        self.cgroup.mkdir(parents=True)
        monkeypatch.setattr(cgroup, "ROOT", self.cgroup)
        for module in (cgroup, sampler):
            monkeypatch.setattr(module, "Path", self.path)

    def path(self, name: str) -> Path:
        """What `Path` is to the code under test: /proc of ours for the fake process, the real one otherwise."""
        return self.proc / name.removeprefix("/proc/") if name.startswith(f"/proc/{PID}/") else Path(name)

    def process(self, **files: str) -> None:
        self.put(self.proc / str(PID), files)

    def group(self, folder: str, files: dict[str, str]) -> Path:
        return self.put(self.cgroup / folder, files)

    def v1(self, **changes: str) -> Path:
        self.process(cgroup=V1_PROC)
        self.group("cpuset/" + GROUP, {})
        self.group("memory/" + GROUP, V1_MEMORY)
        for group, files in ((GROUP, V1_CPU | V1_USAGE), ("docker", V1_CPU), ("", V1_CPU)):
            self.group("cpu,cpuacct/" + group, files)
        return self.group("cpu,cpuacct/" + GROUP, renamed(changes))

    def hybrid(self, **changes: str) -> Path:
        self.process(cgroup=HYBRID_PROC)
        self.group("memory/" + GROUP, V1_MEMORY)
        self.group("cpuacct/" + GROUP, V1_USAGE)
        self.group("unified/" + GROUP, {"cpu.pressure": PRESSURE, "cgroup.procs": "4242\n4243\n"})
        for group, files in ((GROUP, V1_CPU), ("docker", V1_CPU), ("", V1_CPU)):
            self.group("cpu/" + group, files)
        return self.group("cpu/" + GROUP, renamed(changes))

    def v2(self, **changes: str) -> Path:
        self.process(cgroup=V2_PROC)
        return self.group(SCOPE, V2_ALL | renamed(changes))

    @staticmethod
    def put(folder: Path, files: dict[str, str]) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text)
        return folder


def renamed(changes: dict[str, str]) -> dict[str, str]:
    """Files by keyword: `cpu__shares` is cpu.shares."""
    return {name.replace("__", "."): text for name, text in changes.items()}
