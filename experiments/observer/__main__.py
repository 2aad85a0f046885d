# SPDX-License-Identifier: Apache-2.0
"""The observer's loop: one JSON request a line on standard input, one JSON reply a line on standard output.

    {"do": "apply", "pid": 7, "setting": "fifo", "value": 90, "rt_budget_us": 0, …}      -> {"error": null | why not}
    {"do": "prove", "services": {"broker": 7}, "files": {"broker": "/x.conf"}, …}       -> {"services": {…}}
    {"do": "start", "services": {"broker": 7}, "scope": {"detailed": ["broker"]}, …}    -> {}
    {"do": "follow", "services": {"broker": 9}, "containers": true}   it was started anew -> {}
    {"do": "stop"}                                                                      -> {"rows": […], "cpu_s": {…}}
    {"do": "tasks", "pid": 7}                                           -> {"states": "SS", "run_ns": 4711}
    {"do": "disk", "what": "fill"}    or empty, wipe, read                              -> {"free_bytes": 0}
    {"do": "release"}      put the real-time budgets back that `apply` raised           -> {}
    {"do": "examine"}      what this machine is, and how it is tuned                    -> {"facts": {…}, "tuning": {…}}
    {"do": "lower"}        put budgets back that a killed run left                      -> {"lowered": […]}

Between `start` and `stop` it samples at 10 Hz on a fixed schedule. End of input ends it. Requests may also be given as
arguments: they are answered, and that is all.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import select
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.observer import disk, sockets, threads
from experiments.observer.cgroup import PARENT_BUDGET_US, Cgroup, lower_rt_budgets
from experiments.observer.facts import Machine
from experiments.observer.sampler import INTERVAL_NS, Sampler, Scope
from experiments.observer.state import State, Unreadable


class Observer:
    """Answers requests by name: `do` is the method."""

    def __init__(self) -> None:
        self._sampler: Sampler | None = None
        self._due_ns = 0
        self._cpu_s = 0.0
        self._raised: dict[Path, str] = {}

    def serve(self) -> None:
        """Read requests until there are no more; sample meanwhile."""
        pending = b""
        while True:
            timeout_s = None if self._sampler is None else max(0, self._due_ns - time.monotonic_ns()) / 1e9
            if select.select([0], [], [], timeout_s)[0]:
                chunk = os.read(0, 65536)
                if not chunk:
                    self.release()
                    return
                *lines, pending = (pending + chunk).split(b"\n")
                for line in lines:
                    self.answer(json.loads(line))
            elif self._sampler is not None:
                before_s = time.process_time()
                self._sampler.sweep()
                self._cpu_s += time.process_time() - before_s
                missed = max(0, time.monotonic_ns() - self._due_ns) // INTERVAL_NS
                self._due_ns += (1 + missed) * INTERVAL_NS  # what was missed, e.g. frozen, is not made up for

    def apply(self, pid: int, setting: str, value: Any, rt_budget_us: int, *, containers: bool) -> dict[str, Any]:
        """Set one thing on every thread of a service; the reply's `error` says why it could not be."""
        try:
            if rt_budget_us:
                self._give_rt_budget(Cgroup(pid), rt_budget_us)
            for member in _members(pid, containers=containers):
                SETTINGS[setting](member, value)
        except OSError as error:
            return {"error": f"{error.strerror or error} ({setting} on process {pid})"}
        return {"error": None}

    def prove(
        self,
        services: dict[str, int],
        *,
        containers: bool,
        files: dict[str, str] | None = None,
        kernel_files: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """Read back what the kernel holds for each service, and the configuration file that it was given, if any.

        `kernel_files` has further files to read of each, see `experiments.knobs.Knob.kernel_file`.
        """
        paths, further = files or {}, kernel_files or {}
        return {
            "services": {
                name: _state(pid, paths.get(name), further, containers=containers) for name, pid in services.items()
            }
        }

    def start(self, services: dict[str, int], scope: dict[str, Any], *, containers: bool) -> dict[str, Any]:
        """Begin to sample these services; `scope` has the fields of `sampler.Scope`."""
        pids = {name: _members(pid, containers=containers) for name, pid in services.items()}
        self._sampler = Sampler(pids, Scope(**scope), containers=containers)
        self._cpu_s = 0.0
        self._sampler.sweep()
        self._due_ns = time.monotonic_ns() + INTERVAL_NS
        return {}

    def follow(self, services: dict[str, int], *, containers: bool) -> dict[str, Any]:
        """Go on sampling services that were started anew, by their new processes."""
        if self._sampler is not None:
            for name, pid in services.items():
                self._sampler.follow(name, _members(pid, containers=containers))
        return {}

    def stop(self, pressing: str | None = None) -> dict[str, Any]:
        """End sampling and give what was sampled, with what it cost, and the seconds of the service `pressing`."""
        if self._sampler is None:
            return {"rows": [], "cpu_s": {}}
        self._sampler.sweep()
        sampler, self._sampler = self._sampler, None
        sampler.close()
        return {
            "rows": sampler.rows(), "cpu_s": sampler.totals(), "observer_cpu_s": self._cpu_s,
            "longest_gap_ms": sampler.longest_gap_ms(),
            "seconds": sampler.seconds(pressing) if pressing else [],
        }  # fmt: skip

    def tasks(self, pid: int) -> dict[str, Any]:
        """Reply whether the threads of a process run, sleep or are stopped, and how long they ran so far."""
        return {"states": threads.states(pid), "run_ns": threads.run_ns(pid)}

    def disk(self, what: str) -> dict[str, Any]:
        """Fill the broker's disk, empty it of that, wipe it, or only read how much is free."""
        if what != "read":
            {"fill": disk.fill, "empty": disk.empty, "wipe": disk.wipe}[what]()
        return {"free_bytes": disk.free_bytes()}

    def release(self) -> dict[str, Any]:
        """Put every real-time budget back that outlives our containers."""
        for file, before in reversed(self._raised.items()):  # a group cannot give up what one below it holds
            try:
                file.write_text(before)
            except OSError as error:
                print(f"could not put {file} back to {before}: {error}", file=sys.stderr)
        self._raised.clear()
        return {}

    def examine(self) -> dict[str, Any]:
        """Reply with what this machine is and how it is tuned: where the engine is elsewhere, only we see that."""
        machine = Machine()
        return {"facts": machine.facts(), "tuning": machine.tuning()}

    def lower(self) -> dict[str, Any]:
        """Put back budgets that a killed run gave to the groups above its containers."""
        return {"lowered": [str(file) for file in lower_rt_budgets()]}

    def answer(self, request: dict[str, Any]) -> None:
        """Do one request and write its reply, whatever goes wrong."""
        try:
            reply = getattr(self, request.pop("do"))(**request)
        except Exception as error:  # an observer that dies takes the run and the reason with it
            reply = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(reply, separators=(",", ":")) + "\n")
        sys.stdout.flush()

    def _give_rt_budget(self, group: Cgroup, budget_us: int) -> None:
        if group.rt_budget_us() is None:
            return  # no budgets per group: the policy alone suffices
        for file in group.rt_files_above():
            self._raised.setdefault(file, file.read_text())
        group.set_rt_budget(budget_us, PARENT_BUDGET_US)


def _write(pid: int, target: tuple[str, str]) -> None:
    """Write a text to a file of a process or its control group, as `kernel_files` name it; raises OSError."""
    template, text = target
    _path(template, pid).write_text(text)


SETTINGS: dict[str, Callable[[int, Any], None]] = {
    "fifo": lambda pid, priority: threads.set_policy(pid, "fifo", priority),
    "rr": lambda pid, priority: threads.set_policy(pid, "rr", priority),
    "nice": threads.set_nice,
    "cpus": threads.set_affinity,
    "file": _write,
}


def _members(pid: int, *, containers: bool) -> list[int]:
    return Cgroup(pid).pids() if containers else threads.descendants(pid)


def _state(pid: int, file: str | None, kernel_files: dict[str, str], *, containers: bool) -> State | Unreadable:
    try:
        members = _members(pid, containers=containers)
        all_threads = [thread for member in members for thread in threads.read(member)]
        group = Cgroup(pid)
        state: State = {
            "threads": all_threads, "weight": group.cpu_weight(), "quota": group.cpu_quota(),
            "rt_budget_us": group.rt_budget_us(), "memory_limit_bytes": group.memory_limit_bytes(),
            "kernel_files": {field: _texts(template, members) for field, template in kernel_files.items()},
            "configuration": _configuration(pid, file) if file else None,
        }  # fmt: skip
    except OSError as error:
        return {"error": str(error)}
    try:
        state["connections"] = sockets.connections(pid)
    except OSError as error:
        state["connections_error"] = str(error)
    return state


def _path(template: str, pid: int) -> Path:
    """Return the file that a template names for a process; raises OSError where it has no such control group."""
    controller = re.match(r"{(\w+)}/", template)
    if controller is None or controller[1] == "pid":
        return Path(template.format(pid=pid))
    folder = Cgroup(pid).folder(controller[1])
    if folder is None:
        raise FileNotFoundError(errno.ENOENT, f"no control group of {controller[1]}")
    return folder / template.removeprefix(controller[0])


def _texts(template: str, pids: list[int]) -> list[str]:
    """Return what each process' file says; nothing of those that have none."""
    texts = []
    for pid in pids:
        with contextlib.suppress(OSError):
            texts.append(_path(template, pid).read_text().strip())
    return texts


def _configuration(pid: int, file: str) -> str | None:
    """Return the file as the process itself sees it; None unless its command line names it.

    As a word, or as what an option is set to. Not by its environment: that of another user needs more powers to read.
    """
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
        named = re.search(rb"(^|[\0=:])" + re.escape(file.encode()) + rb"(\0|$)", words)
        return Path(f"/proc/{pid}/root{file}").read_text() if named else None
    except (OSError, ValueError):
        return None


if __name__ == "__main__":
    if sys.argv[1:]:
        for argument in sys.argv[1:]:
            Observer().answer(json.loads(argument))
    else:
        Observer().serve()
