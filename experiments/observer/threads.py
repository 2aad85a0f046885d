# SPDX-License-Identifier: Apache-2.0
"""Scheduling of every thread of a process: set it, and read back what the kernel made of it; see sched(7)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from experiments.observer.state import Thread

POLICIES = {"other": os.SCHED_OTHER, "fifo": os.SCHED_FIFO, "rr": os.SCHED_RR}
_NAMES = {
    os.SCHED_OTHER: "SCHED_OTHER", os.SCHED_FIFO: "SCHED_FIFO", os.SCHED_RR: "SCHED_RR",
    os.SCHED_BATCH: "SCHED_BATCH", os.SCHED_IDLE: "SCHED_IDLE", 6: "SCHED_DEADLINE",
}  # fmt: skip
_RESET_ON_FORK = 0x40000000

Done = TypeVar("Done")


def read(pid: int) -> list[Thread]:
    """Policy, priority, nice and CPUs of each thread, as sched_getscheduler(2) and its kin tell."""
    return _each(pid, _thread)


def set_policy(pid: int, policy: str, priority: int) -> None:
    """Give every thread a policy (`other`, `fifo`, `rr`) and its priority; raises OSError."""
    _each(pid, lambda tid: os.sched_setscheduler(tid, POLICIES[policy], os.sched_param(priority)))


def set_nice(pid: int, nice: int) -> None:
    """Give every thread a nice value (-20 to 19); raises OSError."""
    _each(pid, lambda tid: os.setpriority(os.PRIO_PROCESS, tid, nice))


def set_affinity(pid: int, cpus: list[int]) -> None:
    """Confine every thread to these CPUs; raises OSError."""
    _each(pid, lambda tid: os.sched_setaffinity(tid, cpus))


def states(pid: int) -> str:
    """One letter a thread, as proc_pid_stat(5) has them: R running, S sleeping, T stopped."""
    stats = _each(pid, lambda tid: Path(f"/proc/{pid}/task/{tid}/stat").read_text())
    return "".join(stat.rpartition(")")[2].split()[0] for stat in stats)


def run_ns(pid: int) -> int:
    """How long all threads of a process ran on a CPU so far; raises OSError."""
    texts = _each(pid, lambda tid: Path(f"/proc/{pid}/task/{tid}/schedstat").read_text())
    return sum(int(text.split()[0]) for text in texts)


def descendants(pid: int) -> list[int]:
    """Return the process and all it started, by /proc/PID/task/TID/children."""
    pids = [pid]
    for parent in pids:
        for tid in _tids(parent):
            pids += [int(child) for child in _read(f"/proc/{parent}/task/{tid}/children").split()]
    return pids


def _thread(tid: int) -> Thread:
    policy = os.sched_getscheduler(tid) & ~_RESET_ON_FORK
    return {
        "tid": tid,
        "name": _read(f"/proc/{tid}/comm").strip(),
        "policy": _NAMES.get(policy, str(policy)),
        "priority": os.sched_getparam(tid).sched_priority,
        "nice": os.getpriority(os.PRIO_PROCESS, tid),
        "cpus": sorted(os.sched_getaffinity(tid)),
    }


def _each(pid: int, do: Callable[[int], Done]) -> list[Done]:
    """Do it with each thread of a process; those that end meanwhile, as of a Java that compiles, are none any more."""
    done = []
    for tid in _tids(pid):
        try:
            done.append(do(tid))
        except (ProcessLookupError, FileNotFoundError):
            if tid == pid:
                raise
    return done


def _tids(pid: int) -> list[int]:
    try:
        return sorted(int(path.name) for path in Path(f"/proc/{pid}/task").iterdir())
    except FileNotFoundError:
        raise ProcessLookupError(f"process {pid} is gone") from None


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
