# SPDX-License-Identifier: Apache-2.0
"""Resources at 10 Hz from open descriptors: a sweep is a few dozen preads; nothing is parsed until the end."""

from __future__ import annotations

import functools
import itertools
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from experiments.observer.cgroup import Cgroup

INTERVAL_NS = 100_000_000
SWEEPS_A_SECOND = 10
SLOW = {"status", "snmp"}
"""Read every tenth time only: the kernel formats pages of text for a single number."""

FROM_0 = {"cpu_us", "run_delay_us", "voluntary_switches", "involuntary_switches", "throttled_us", "psi_cpu_some_us"}
"""What a service that is started anew counts from nothing: its first reading is what it used so far."""


class Source(NamedTuple):
    """A file that tells of a service: which life of it (0: the first one), what the text means, where it is open."""

    service: str
    life: int
    kind: str
    fd: int


class Sweep(NamedTuple):
    """What was read at one time, in the order of its sources."""

    t_ns: int
    sources: list[Source]
    texts: list[bytes]


Totals = dict[tuple[str, int], dict[str, float]]
"""Counters by service and life."""


@dataclass(frozen=True)
class Scope:
    """What is looked at beyond each service's sums, by name of service, or number of CPU."""

    detailed: list[str] = field(default_factory=list)
    """Services whose threads are sampled one by one."""
    networks: list[str] = field(default_factory=list)
    """Services whose networks' TCP retransmissions are counted."""
    cpus: list[int] | None = None
    """Those of the stand, whose steal and load are noise; None: all."""
    pressed: list[int] | None = None
    """Those that a contention is to keep busy; None: all."""


class Sampler:
    """Keeps the raw text of every source, sweep by sweep; `rows` makes sense of it afterwards."""

    def __init__(self, services: dict[str, list[int]], scope: Scope, *, containers: bool) -> None:
        """Open what tells of these services, each given by its processes."""
        self._parsers = PARSERS | {"stat": functools.partial(_stat, cpus=scope.cpus)}
        self._scope, self._containers = scope, containers
        self._quick: list[Source] = []
        self._all: list[Source] = []
        self._lives: dict[str, int] = {}
        self._sweeps: list[Sweep] = []
        for name, path in (("stat", "/proc/stat"), ("pressure", "/proc/pressure/cpu")):
            self._add("host", name, Path(path))
        for service, pids in services.items():
            self._add_service(service, pids)

    def follow(self, service: str, pids: list[int]) -> None:
        """Go on with these processes, which are a service's next life: it was started anew."""
        gone = [source for source in self._all if source.service == service]
        # New lists, for each sweep keeps the one it was read by.
        self._quick = [source for source in self._quick if source.service != service]
        self._all = [source for source in self._all if source.service != service]
        for source in gone:
            os.close(source.fd)
        self._lives[service] = self._lives.get(service, 0) + 1
        self._add_service(service, pids)

    def sweep(self) -> None:
        """Read every source once, what is slow to read every tenth time."""
        due = self._all if len(self._sweeps) % SWEEPS_A_SECOND == 0 else self._quick
        self._sweeps.append(Sweep(time.monotonic_ns(), due, [_pread(source) for source in due]))

    def rows(self) -> list[dict[str, Any]]:
        """One row a sweep and service, from the second sweep on: counters as their increase since last read."""
        rows: list[dict[str, Any]] = []
        last: Totals = {}
        told_ns: dict[str, int] = {}
        for sweep in self._sweeps:
            for (service, life), totals in self._totals(sweep).items():
                before = last.setdefault((service, life), _newborn(life))
                increase = {
                    name: value if name == "memory_bytes" else max(0.0, value - before[name])
                    for name, value in totals.items()
                    if name in before
                }
                if service in told_ns:
                    passed_ns = sweep.t_ns - told_ns[service]
                    rows.append({"t_ns": sweep.t_ns, "service": service, **_rates(increase, passed_ns)})
                told_ns[service] = sweep.t_ns
                before |= totals
        return rows

    def totals(self) -> dict[str, float]:
        """CPU seconds each service used between the first and the last sweep; `host`: seconds not idle, steal apart.

        Of all its lives together, each until it was last seen.
        """
        if len(self._sweeps) < 2:
            return {}
        first: dict[tuple[str, int], float] = {}
        last: dict[tuple[str, int], float] = {}
        for sweep in self._sweeps:
            for key, totals in self._totals(sweep).items():
                value = totals.get("busy_us" if key[0] == "host" else "cpu_us")
                if value is not None:
                    first.setdefault(key, 0.0 if key[1] else value)
                    last[key] = max(value, last.get(key, 0.0))  # threads that end take their counters with them
        used: dict[str, float] = {}
        for key, value in last.items():
            used[key[0]] = used.get(key[0], 0.0) + (value - first[key]) / 1e6
        return used

    def longest_gap_ms(self) -> float:
        """The longest time between two sweeps: in it nothing was seen."""
        times_ns = [sweep.t_ns for sweep in self._sweeps]
        return max((after - before for before, after in itertools.pairwise(times_ns)), default=0) / 1e6

    def seconds(self, service: str) -> list[tuple[float, float, float]]:
        """Second by second: how long it was, what a service used of the CPUs and what nobody did, all in s."""
        looks = self._sweeps[::SWEEPS_A_SECOND]
        if len(self._sweeps) % SWEEPS_A_SECOND != 1:  # the last second is what is left, and may be longer
            looks = [*looks[:-1], self._sweeps[-1]] if len(looks) > 1 else [self._sweeps[0], self._sweeps[-1]]
        return [
            (
                (after.t_ns - before.t_ns) / 1e9,
                max(0.0, self._cpu_us(service, after) - self._cpu_us(service, before)) / 1e6,
                (self._idle_us(after) - self._idle_us(before)) / 1e6,
            )
            for before, after in itertools.pairwise(looks)
        ]

    def _cpu_us(self, service: str, sweep: Sweep) -> float:
        return sum(totals.get("cpu_us", 0.0) for key, totals in self._totals(sweep).items() if key[0] == service)

    def _idle_us(self, sweep: Sweep) -> float:
        text = next(
            (text for source, text in zip(sweep.sources, sweep.texts, strict=True) if source.kind == "stat"), b""
        )
        return _idle(text, self._scope.pressed)

    def close(self) -> None:
        """Give the descriptors back."""
        for source in self._all:
            os.close(source.fd)

    def _add_service(self, service: str, pids: list[int]) -> None:
        if self._containers and pids:
            self._add_cgroup(service, Cgroup(pids[0]))
        for pid in pids:
            if service in self._scope.detailed or not self._containers:
                self._add_process(service, pid, accounts=not self._containers)
        if service in self._scope.networks and pids:
            self._add(service, "snmp", Path(f"/proc/{pids[0]}/net/snmp"))

    def _add_cgroup(self, service: str, group: Cgroup) -> None:
        accounting, cpu, memory = group.folder("cpuacct"), group.folder("cpu"), group.folder("memory")
        pressure = group.unified()
        if accounting and group.is_v1("cpuacct"):
            self._add(service, "usage_ns", accounting / "cpuacct.usage")
        if cpu:
            self._add(service, "cpu.stat", cpu / "cpu.stat")
        if memory:
            self._add(
                service, "memory", memory / ("memory.usage_in_bytes" if group.is_v1("memory") else "memory.current")
            )
        if pressure:
            self._add(service, "pressure", pressure / "cpu.pressure")

    def _add_process(self, service: str, pid: int, *, accounts: bool) -> None:
        """Schedstat (time on CPU and waiting for one) of each thread; in containers the cgroup counts the CPU time."""
        for tid in sorted(path.name for path in Path(f"/proc/{pid}/task").iterdir()):
            self._add(service, "schedstat" if accounts else "run_delay", Path(f"/proc/{pid}/task/{tid}/schedstat"))
            self._add(service, "status", Path(f"/proc/{pid}/task/{tid}/status"))

    def _add(self, service: str, kind: str, path: Path) -> None:
        try:
            source = Source(service, self._lives.get(service, 0), kind, os.open(path, os.O_RDONLY))
        except OSError:
            return  # this kernel has no such file: its columns stay empty
        self._all.append(source)
        if kind not in SLOW:
            self._quick.append(source)

    def _totals(self, sweep: Sweep) -> Totals:
        totals: Totals = {}
        for source, text in zip(sweep.sources, sweep.texts, strict=True):
            sums = totals.setdefault((source.service, source.life), {})
            for name, value in self._parsers[source.kind](text).items():
                sums[name] = sums.get(name, 0.0) + value
        return totals


def _newborn(life: int) -> dict[str, float]:
    """What is known of a service's counters before their first reading."""
    return dict.fromkeys(FROM_0, 0.0) if life else {}


def _pread(source: Source) -> bytes:
    try:
        return os.pread(source.fd, 65536 if source.kind == "stat" else 4096, 0)  # /proc/stat has a line for each CPU
    except OSError:  # of a process that ended
        return b""


def _rates(increase: dict[str, float], passed_ns: int) -> dict[str, float]:
    passed_us = passed_ns / 1000
    shares = {"cpu_us": "cpu_percent", "steal_us": "steal_percent", "busy_us": "busy_percent"}
    return {
        shares.get(name, name): round(100 * value / passed_us, 3) if name in shares else value
        for name, value in increase.items()
    }


_TICK_US = 1_000_000 / os.sysconf("SC_CLK_TCK")


def _stat(text: bytes, cpus: list[int] | None = None) -> dict[str, float]:
    """/proc/stat in ticks: user nice system idle iowait irq softirq steal, of these CPUs together; see proc_stat(5)."""
    lines = _cpu_lines(text, cpus)
    if not lines:
        return {}
    busy = sum(sum(ticks) - ticks[3] - ticks[4] - ticks[7] for ticks in lines)
    return {"steal_us": sum(ticks[7] for ticks in lines) * _TICK_US, "busy_us": busy * _TICK_US}


def _idle(text: bytes, cpus: list[int] | None) -> float:
    """Microseconds in which these CPUs had nothing to do, or nothing but to wait for a disk."""
    return sum(ticks[3] + ticks[4] for ticks in _cpu_lines(text, cpus)) * _TICK_US


def _cpu_lines(text: bytes, cpus: list[int] | None) -> list[list[int]]:
    names = {b"cpu"} if cpus is None else {b"cpu%d" % cpu for cpu in cpus}
    fields = (line.split() for line in text.splitlines() if line.startswith(b"cpu"))
    ticks = [[int(field) for field in each[1:9]] for each in fields if each[0] in names]
    return [each for each in ticks if len(each) == 8]


def _pressure(text: bytes) -> dict[str, float]:
    """PSI: `some avg10=… total=µs`: time in which some task waited for a CPU."""
    line = text.split(b"\n", 1)[0]
    return {"psi_cpu_some_us": float(line.rpartition(b"total=")[2])} if b"total=" in line else {}


def _cpu_stat(text: bytes) -> dict[str, float]:
    """cpu.stat: usage and throttling; version 1 counts throttling in ns and has no usage."""
    fields = dict(line.split(b" ", 1) for line in text.splitlines() if b" " in line)
    counters = {}
    if b"usage_usec" in fields:
        counters["cpu_us"] = float(fields[b"usage_usec"])
    if b"throttled_usec" in fields:
        counters["throttled_us"] = float(fields[b"throttled_usec"])
    elif b"throttled_time" in fields:
        counters["throttled_us"] = float(fields[b"throttled_time"]) / 1000
    return counters


def _schedstat(text: bytes) -> dict[str, float]:
    """A thread's schedstat: ns on CPU, ns waiting on a run queue, time slices."""
    fields = text.split()
    return {"cpu_us": int(fields[0]) / 1000, "run_delay_us": int(fields[1]) / 1000} if len(fields) == 3 else {}


def _run_delay(text: bytes) -> dict[str, float]:
    counters = _schedstat(text)
    counters.pop("cpu_us", None)
    return counters


_SWITCHES = {b"voluntary_ctxt_switches": "voluntary_switches", b"nonvoluntary_ctxt_switches": "involuntary_switches"}


def _status(text: bytes) -> dict[str, float]:
    """A thread's status: context switches by its own will and against it; see proc_pid_status(5).

    By name: what stands around them differs by architecture and version, on x86 since 6.6 x86_Thread_features.
    """
    fields = (line.partition(b":") for line in text.splitlines())
    return {_SWITCHES[name]: float(value) for name, _, value in fields if name in _SWITCHES and value.strip()}


def _snmp(text: bytes) -> dict[str, float]:
    """RetransSegs of the network namespace, field 12 of the second `Tcp:` line (RFC 1213 tcpRetransSegs)."""
    lines = [line for line in text.splitlines() if line.startswith(b"Tcp:")]
    return {"tcp_retransmits": float(lines[1].split()[12])} if len(lines) == 2 else {}


def _number(name: str, scale: float) -> Any:
    return lambda text: {name: float(text) * scale} if text.strip() else {}


PARSERS = {
    "stat": _stat, "pressure": _pressure, "cpu.stat": _cpu_stat, "usage_ns": _number("cpu_us", 0.001),
    "memory": _number("memory_bytes", 1), "schedstat": _schedstat, "run_delay": _run_delay, "status": _status,
    "snmp": _snmp,
}  # fmt: skip
