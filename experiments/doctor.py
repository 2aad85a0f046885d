# SPDX-License-Identifier: Apache-2.0
"""`make doctor`: what this host can and cannot do, with the remedy for each miss."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from experiments import brokers, host
from experiments.cpus import cpu_sets
from experiments.observer.sampler import PARSERS
from experiments.placements import docker as docker_placement

_CAPABILITIES = {"SYS_NICE": 23, "SYS_RESOURCE": 24, "NET_RAW": 13}
_STEAL_WATCHED_S = 1.0


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's report; without a remedy all is well."""

    what: str
    found: str
    remedy: str = ""
    needed: bool = False
    """Does a run in containers fail without it?"""


def examine() -> Iterator[Finding]:
    """Look at everything a run depends on. Starts nothing, changes nothing."""
    yield from _engine()
    yield from _cpus()
    yield from _real_time()
    yield from _kernel()
    yield from _host_placement()
    ports = sorted(str(path) for pattern in ("ttyUSB*", "ttyACM*") for path in Path("/dev").glob(pattern))
    yield Finding(
        "serial ports",
        ", ".join(ports) or "none",
        "" if ports else "plug a board in for DEVICE=usb:…; simavr needs none",
    )


def print_report(console: Console) -> int:
    """Print the findings; 1 when a run in containers is impossible, else 0."""
    table = Table("", "what", "found", "remedy", box=None, pad_edge=False)
    impossible = False
    for finding in examine():
        mark = "ok" if not finding.remedy else "NO" if finding.needed else "–"
        colour = {"ok": "green", "NO": "red", "–": "yellow"}[mark]
        impossible |= mark == "NO"
        table.add_row(f"[{colour}]{mark}", finding.what, finding.found, finding.remedy)
    console.print(table)
    console.print()
    console.print(
        "Containers: not possible yet; `make scenario-1` runs as plain processes (PLACEMENT=host)."
        if impossible
        else "Containers: ready. `make scenario-1`",
        markup=False,
        soft_wrap=True,
    )
    return int(impossible)


def _engine() -> Iterator[Finding]:
    lacking = docker_placement.engine_answers()
    if lacking:
        yield Finding(
            "container engine", lacking, "sudo make engine (Debian, Ubuntu), or install Docker Engine", needed=True
        )
        return
    version = docker_placement.engine_version()
    yield Finding("container engine", f"Docker {version}")
    compose = docker_placement.compose_version()
    yield Finding("Compose", compose or "none")


def _cpus() -> Iterator[Finding]:
    host_cpus, pi_cpus = cpu_sets()
    shared = host_cpus == pi_cpus
    yield Finding(
        "CPUs", f"host side {host_cpus}, Pi and board {pi_cpus}",
        "one CPU only: Pi and board will share it with the load, so R suffers too" if shared else "",
    )  # fmt: skip
    steal = _steal_percent()
    noisy = steal is not None and steal > 1
    yield Finding(
        "steal", "not counted here" if steal is None else f"{steal} % over {_STEAL_WATCHED_S:g} s",
        "other guests take this host's CPU: use a quieter or dedicated host" if noisy else "",
    )  # fmt: skip


def _steal_percent() -> float | None:
    """Watch what share of all CPUs' time the hypervisor steals; None where the kernel does not count it."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return None
    before = PARSERS["stat"](stat.read_bytes())
    time.sleep(_STEAL_WATCHED_S)
    stolen_us = PARSERS["stat"](stat.read_bytes()).get("steal_us", 0.0) - before.get("steal_us", 0.0)
    return round(float(stolen_us) / 1e4 / _STEAL_WATCHED_S / (os.cpu_count() or 1), 2)


def _real_time() -> Iterator[Finding]:
    grouped = host.rt_group_sched()
    cgroup = host.cgroup_version()
    found = {True: "budgets per group", False: "no budgets per group", None: "unknown"}[grouped]
    blocked = grouped and cgroup == "v2"
    yield Finding(
        "real-time", f"{found}, cgroup {cgroup}",
        "fifo: and rr: will be refused; boot a kernel without RT_GROUP_SCHED, or with cgroup v1" if blocked else "",
    )  # fmt: skip
    held = _effective_capabilities()
    for name, number in _CAPABILITIES.items():
        has = bool(held >> number & 1)
        remedy = {"SYS_NICE": "run as root to set fifo: on plain processes; containers get theirs from the engine",
                  "SYS_RESOURCE": "only needed for --ulimit rtprio (PRIORITY=published); SYS_NICE suffices otherwise",
                  "NET_RAW": "run as root to capture packets"}[name]  # fmt: skip
        yield Finding(f"CAP_{name}", "held" if has else "not held", "" if has else remedy)


def _kernel() -> Iterator[Finding]:
    facts = host.facts()
    yield Finding("kernel", f"{facts['kernel']}, {'virtual machine' if facts['virtual'] else 'bare metal'}")
    yield Finding(
        "cgroup", facts["cgroup"], "" if facts["cgroup"] != "none" else "mount the cgroup file system", needed=True
    )
    psi = facts["psi"]
    yield Finding("pressure (PSI)", "yes" if psi else "no", "" if psi else "boot with psi=1 to see pressure as a cause")


def _host_placement() -> Iterator[Finding]:
    broker = brokers.on_this_host()
    slow = broker.kind == "amqtt"
    yield Finding(
        "broker for PLACEMENT=host", f"{broker.kind} {broker.version_on_host()}",
        "install mosquitto for the broker of the thesis; aMQTT (pure Python) is several times slower" if slow else "",
    )  # fmt: skip


def _effective_capabilities() -> int:
    try:
        status = Path(f"/proc/{os.getpid()}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:")), 0)
