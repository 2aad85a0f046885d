#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a guest's kernel holds of the stand's processes, read by other means than the testbed's own.

Runs as root in the guest, alone, on its Python: proc(5), the control groups' files (v2) and the engine's own notes on
its containers; nothing of `experiments`. Prints one JSON line every other second, until it is killed:

    {"from_ns": CLOCK_MONOTONIC, "to_ns": …, "services": {"broker": {"threads": {"TID": ["FIFO", 90, 0, "0"]},
     "cpu.weight": "100", "cpu.max": "max 100000", "memory.max": "536870912", "nodelay": [1, 1]}}}

A thread reads [policy, real-time priority, nice, CPUs allowed]; `nodelay` is TCP_NODELAY of each connected TCP socket.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
import time
from pathlib import Path

ENGINE = Path("/var/lib/docker/containers")
CGROUP = Path("/sys/fs/cgroup")
POLICIES = {0: "OTHER", 1: "FIFO", 2: "RR", 3: "BATCH", 5: "IDLE", 6: "DEADLINE"}
PROGRAMS = {
    "broker": ("mosquitto", "amqtt"), "control-loop": ("clients.control_loop",), "pi": ("rpi",),
    "board": ("firmware/build/board", "firmware.model"), "stressor": ("stress",), "flooder": ("clients.flood",),
}  # fmt: skip
PAUSE_S = 2.0
"""To look takes a good part of a second in an emulated guest."""

IDLE_S = 15.0
"""While no stand is up; one is for longer than that before its first cycle."""

_PIDFD_GETFD = 438
_LIBC = ctypes.CDLL(None, use_errno=True)


def processes_of_containers() -> dict[str, list[int]]:
    """Every process of each running service, by the engine's notes and the control group of its first process."""
    found = {}
    for notes in ENGINE.glob("*/config.v2.json"):
        with contextlib.suppress(OSError, ValueError):
            facts = json.loads(notes.read_text())
            service = facts["Config"]["Labels"].get("com.docker.compose.service")
            if service and facts["State"]["Pid"]:
                group = group_of(facts["State"]["Pid"])
                found[service] = [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
    return found


def plain_processes() -> dict[str, list[int]]:
    """Processes of placement `host`, told by what they were started as."""
    found: dict[str, list[int]] = {}
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = line.read_bytes().decode(errors="replace").split("\0")[:4]
            for service, programs in PROGRAMS.items():
                if any(word == program or word.endswith("/" + program) for word in words for program in programs):
                    found.setdefault(service, []).append(int(line.parent.name))
    return found


def group_of(pid: int) -> Path:
    """The folder of a process' control group of version 2."""
    path = next(line[3:] for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines() if line.startswith("0::"))
    return CGROUP / path.lstrip("/")


def threads(pids: list[int]) -> dict[str, list[object]]:
    """Scheduling of every thread, by fields 19, 40 and 41 of its `stat`, and the CPUs that its `status` allows."""
    found: dict[str, list[object]] = {}
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").glob("*"):
            with contextlib.suppress(OSError):
                after_name = (task / "stat").read_text().rpartition(")")[2].split()
                nice, priority, policy = (int(after_name[field - 3]) for field in (19, 40, 41))
                status = (task / "status").read_text().splitlines()
                cpus = next(line.split()[1] for line in status if line.startswith("Cpus_allowed_list:"))
                found[task.name] = [POLICIES.get(policy, str(policy)), priority, nice, cpus]
    return found


def nodelay(pids: list[int]) -> list[int]:
    """TCP_NODELAY of every connected TCP socket, asked of the very socket."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            held = os.pidfd_open(pid)
            try:
                found += [option for link in Path(f"/proc/{pid}/fd").glob("*") for option in option_of(held, link)]
            finally:
                os.close(held)
    return sorted(found)


def option_of(held: int, link: Path) -> list[int]:
    """The option of one descriptor; none where it is no connected TCP socket."""
    with contextlib.suppress(OSError):
        if str(link.readlink()).startswith("socket:"):
            number = _LIBC.syscall(_PIDFD_GETFD, held, int(link.name), 0)
            if number >= 0:
                with socket.socket(fileno=number) as one:
                    one.getpeername()
                    if one.family in (socket.AF_INET, socket.AF_INET6) and one.type == socket.SOCK_STREAM:
                        return [int(bool(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)))]
    return []


def look() -> dict[str, dict[str, object]]:
    """Everything, once."""
    services: dict[str, dict[str, object]] = {}
    contained = processes_of_containers()
    for service, pids in (contained or plain_processes()).items():
        state: dict[str, object] = {"threads": threads(pids), "nodelay": nodelay(pids)}
        if contained and pids:
            with contextlib.suppress(OSError):
                group = group_of(pids[0])
                state |= {name: (group / name).read_text().strip() for name in ("cpu.weight", "cpu.max", "memory.max")}
        services[service] = state
    return services


if __name__ == "__main__":
    while True:
        from_ns = time.monotonic_ns()
        services = look()
        print(json.dumps({"from_ns": from_ns, "to_ns": time.monotonic_ns(), "services": services}), flush=True)
        time.sleep(PAUSE_S if services else IDLE_S)
