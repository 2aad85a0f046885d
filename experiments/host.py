# SPDX-License-Identifier: Apache-2.0
"""What this host is: the facts a reader of the bundle, and `make doctor`, need to judge a result."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

_CGROUP = Path("/sys/fs/cgroup")


def facts() -> dict[str, Any]:
    """Give `host` in bundle.json. The name is hashed: enough to tell hosts apart, nothing to give away."""
    return {
        "hostname_hash": hashlib.sha256(platform.node().encode()).hexdigest()[:16],
        "kernel": platform.release(),
        "machine": platform.machine(),
        "os": _os_name(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "cpu_model": _cpu_model(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "cgroup": cgroup_version(),
        "rt_group_sched": rt_group_sched(),
        "psi": Path("/proc/pressure/cpu").exists(),
        "virtual": "hypervisor" in _read("/proc/cpuinfo"),
        "python": platform.python_version(),
    }


def cgroup_version() -> str:
    """Give `v2`, `hybrid` (v1 controllers beside a v2 tree), `v1` or `none`."""
    if (_CGROUP / "cgroup.controllers").exists():
        return "v2"
    if (_CGROUP / "unified" / "cgroup.controllers").exists():
        return "hybrid"
    return "v1" if (_CGROUP / "cpu").exists() else "none"


def rt_group_sched() -> bool | None:
    """Are real-time budgets per group compiled in? None: this host does not tell."""
    if list(_CGROUP.glob("cpu*/cpu.rt_runtime_us")):
        return True
    for config in (Path("/proc/config.gz"), Path(f"/boot/config-{platform.release()}")):
        text = _config(config)
        if text:
            return "CONFIG_RT_GROUP_SCHED=y" in text
    return None


def git() -> dict[str, Any] | None:
    """Give the revision of this checkout and whether it is changed; None outside one."""
    root = Path(__file__).parents[1]
    try:
        revision = _git(root, "rev-parse", "HEAD")
        return {"revision": revision, "dirty": bool(_git(root, "status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True
    ).stdout.strip()


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _config(path: Path) -> str:
    import gzip  # noqa: PLC0415 - rarely needed

    try:
        return gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    except OSError:
        return ""


def _cpu_model() -> str:
    for line in _read("/proc/cpuinfo").splitlines():
        if line.lower().startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _os_name() -> str:
    for line in _read("/etc/os-release").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return platform.system()
