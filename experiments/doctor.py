# SPDX-License-Identifier: Apache-2.0
"""`make doctor`: what this host can and cannot do, with the remedy for each miss.

The three ratings, and most of what adds noise, follow the kernel's page on configuring a real-time system
(Documentation/core-api/real-time/ and admin-guide/cpu-isolation.rst).
"""

from __future__ import annotations

import enum
import os
import resource
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
from rich.console import Console
from rich.markup import escape

from experiments import brokers, engine
from experiments.cpus import cpu_sets
from experiments.errors import StandError
from experiments.observer.facts import Machine
from experiments.placements.docker import ask_observer, passing_project

_SYS_NICE = 23
_IMAGES_TAKE_BYTES = 4 * 2**30
_BUSY_PERCENT = 20.0
_OUR_COMMANDS = (b"run", b"study", b"all", b"path", b"replay", b"bench")


class Rating(enum.Enum):
    """What a miss does to a run."""

    BLOCKS = "blocks a run"
    WEAKENS = "weakens a proof"
    NOISE = "adds noise"


_COLOURS = {Rating.BLOCKS: "red", Rating.WEAKENS: "yellow", Rating.NOISE: "yellow"}


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's report; without a rating all is well."""

    what: str
    state: str
    rating: Rating | None = None
    remedy: str = ""
    only: str = ""
    """Which runs it is about, e.g. `with fifo:`; empty: every run in containers."""


def examine() -> Iterator[Finding]:
    """Look at everything a run depends on. Changes nothing; starts one container where the engine is elsewhere."""
    lack = engine.lacking()
    machine: dict[str, Any] | None = None
    if lack:
        yield Finding("container engine", lack.reason, Rating.BLOCKS, lack.remedy)
    else:
        client = engine.connect()
        yield from of_engine(client.version(), client.info(), engine.compose_version(), engine.buildx_version())
        if engine.is_far():
            machine = _far_machine(client)
            yield _where(machine)
        else:
            yield from _disk(client.info())
    machine = machine or {"facts": Machine().facts(), "tuning": Machine().tuning()}
    yield from of_machine(machine["facts"])
    yield from _other_runs()
    yield from of_cpus(*cpu_sets())
    yield from of_tuning(machine["tuning"])
    yield from _host_placement()


def print_report(console: Console) -> int:
    """Print the findings; 1 when no run in containers is possible, else 0."""
    findings = list(examine())
    for finding in findings:
        colour = _COLOURS[finding.rating] if finding.rating else "green"
        mark = f"[{colour}]{'✗ ' if finding.rating else 'ok'}[/]"
        console.print(f"{mark}  [bold]{finding.what}[/]: {escape(finding.state)}", soft_wrap=True)
        if finding.rating:
            effect = " ".join(filter(None, [finding.rating.value, finding.only]))
            console.print(f"    [{colour}]{escape(effect)}[/] → {escape(finding.remedy)}", soft_wrap=True)
    impossible = any(finding.rating is Rating.BLOCKS and not finding.only for finding in findings)
    console.print(
        "\nContainers: not possible yet; `make scenario-1 PLACEMENT=host` runs as plain processes."
        if impossible
        else "\nContainers: ready. `make scenario-1`",
        markup=False,
        soft_wrap=True,
    )
    return int(impossible)


def of_engine(
    version: dict[str, Any], info: dict[str, Any], compose: str | None, buildx: str | None
) -> Iterator[Finding]:
    """Judge what an engine that can be used says of itself.

    It gives the containers their capabilities, so those of whoever asks do not matter.
    """
    driver = f"cgroup driver {info.get('CgroupDriver')}"
    yield Finding("container engine", f"Docker {version['Version']}, {driver}, storage {info.get('Driver')}")
    yield Finding("Compose, Buildx", f"{compose}, {buildx}")
    if not info.get("MemoryLimit", True):
        yield Finding(
            "memory limits", "ignored by this kernel", Rating.WEAKENS,
            "boot with cgroup_enable=memory, or a service that grows takes the host with it",
        )  # fmt: skip
    for limit, name in (("CpuCfsQuota", "quota:"), ("CPUShares", "weight:"), ("CPUSet", "cpus:")):
        if not info.get(limit, True):
            yield Finding(
                "CPU controller", f"{limit} is not supported here", Rating.BLOCKS,
                "boot with the cpu and cpuset cgroup controllers enabled", only=f"with {name}",
            )  # fmt: skip


def of_machine(facts: dict[str, Any]) -> Iterator[Finding]:
    """Judge kernel and control groups."""
    kind = {True: "virtual machine", False: "bare metal", None: "virtual or not is unknown"}[facts["virtual"]]
    yield Finding("kernel", f"{facts['kernel']} on {facts['machine']}, {kind}")
    without = facts["cgroup"] == "none"
    yield Finding(
        "cgroup", facts["cgroup"], Rating.BLOCKS if without else None, "mount the cgroup file system" if without else ""
    )
    budgets = {True: "budgets per group", False: "no budgets per group", None: "unknown whether there are budgets"}
    refused = facts["rt_group_sched"] and facts["cgroup"] == "v2"
    yield Finding(
        "real-time", f"{budgets[facts['rt_group_sched']]}, cgroup {facts['cgroup']}",
        Rating.BLOCKS if refused else None,
        "boot a kernel without RT_GROUP_SCHED (or with rt_group_sched=0), or with cgroup v1" if refused else "",
        only="with fifo: or rr:",
    )  # fmt: skip
    psi = facts["psi"]
    yield Finding(
        "pressure (PSI)", "counted" if psi else "not counted", None if psi else Rating.WEAKENS,
        "" if psi else "boot with psi=1 to see pressure as a cause",
    )  # fmt: skip


def of_tuning(tuning: dict[str, Any]) -> Iterator[Finding]:
    """Judge what makes latencies vary from run to run."""
    governors = tuning["governors"]
    slow = [name for name in governors if name != "performance"]
    yield Finding(
        "frequency governor", ", ".join(governors) or "none (fixed, or left to the hypervisor)",
        Rating.NOISE if slow else None, "cpupower frequency-set -g performance" if slow else "",
    )  # fmt: skip
    smt = tuning["smt"]
    yield Finding(
        "SMT", {True: "on", False: "off", None: "unknown"}[smt], Rating.NOISE if smt else None,
        "two CPUs share a core: echo off > /sys/devices/system/cpu/smt/control" if smt else "",
    )  # fmt: skip
    yield Finding("isolated CPUs", tuning["isolated"] or "none; isolcpus= would keep other work off the stand's CPUs")
    pressure = tuning["pressure_percent"]
    busy = pressure is not None and pressure > _BUSY_PERCENT
    yield Finding(
        "CPU pressure", "not counted" if pressure is None else f"{pressure:g} % over 10 s",
        Rating.NOISE if busy else None,
        "something else wants these CPUs: stop it, or wait" if busy else "",
    )  # fmt: skip
    steal = tuning["steal_percent"]
    noisy = steal is not None and steal > 1
    yield Finding(
        "steal", "not counted here" if steal is None else f"{steal} % over a second", Rating.NOISE if noisy else None,
        "other guests take this host's CPU: use a quieter or dedicated host" if noisy else "",
    )  # fmt: skip
    swapped = tuning["swap_used_bytes"]
    yield Finding(
        "swap", f"{swapped / 2**20:.0f} MiB in use", Rating.NOISE if swapped else None,
        "swapoff -a: a page that is read back from disk delays a cycle by milliseconds" if swapped else "",
    )  # fmt: skip


def other_runs(proc: Path = Path("/proc")) -> list[int]:
    """Find runs of ours that are under way on this machine, ours aside: by their command lines."""
    ports = []
    for folder in proc.glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended
        at = words.index(b"experiments") if b"experiments" in words else 0
        if at and words[at - 1] == b"-m" and words[at + 1] in _OUR_COMMANDS and int(folder.name) != os.getpid():
            ports.append(int(folder.name))
    return sorted(ports)


def _other_runs() -> Iterator[Finding]:
    others = other_runs()
    if others:
        pids = ", ".join(map(str, others))
        yield Finding("other runs", f"under way: process {pids}", Rating.BLOCKS, "wait for it or stop it", only="now")


def _disk(info: dict[str, Any]) -> Iterator[Finding]:
    try:
        free = shutil.disk_usage(info["DockerRootDir"]).free
    except OSError:
        return  # the engine's folder is on another machine, or closed to us
    short = free < _IMAGES_TAKE_BYTES
    yield Finding(
        "disk for images", f"{free / 2**30:.1f} GiB free in {info['DockerRootDir']}", Rating.BLOCKS if short else None,
        "building the images takes 4 GiB; docker system prune frees what nothing uses" if short else "",
        only="until images are built",
    )  # fmt: skip


def _far_machine(client: docker.DockerClient) -> dict[str, Any] | None:
    """Ask the observer of an engine that is elsewhere; None before its image is there."""
    try:
        with passing_project(client) as project:
            return ask_observer(engine.environment(), project, do="examine")
    except StandError:
        return None


def _where(machine: dict[str, Any] | None) -> Finding:
    if machine is None:
        return Finding(
            "engine's machine", "another than this, and nothing there to ask: what follows is of this one",
            Rating.WEAKENS, "`make images`, then `make doctor` again", only="before images are built",
        )  # fmt: skip
    return Finding("engine's machine", "another than this; kernel, real-time, CPUs and noise are read there")


def of_cpus(host_cpus: str, pi_cpus: str) -> Iterator[Finding]:
    """Judge whether the Pi has CPUs of its own."""
    shared = host_cpus == pi_cpus
    yield Finding(
        "CPUs", f"host side {host_cpus}, Pi and board {pi_cpus}", Rating.NOISE if shared else None,
        "one CPU only: Pi and board will share it with the load, so R suffers too" if shared else "",
    )  # fmt: skip


def _host_placement() -> Iterator[Finding]:
    broker = brokers.on_this_host()
    slow = broker.kind == "amqtt"
    yield Finding(
        "broker for PLACEMENT=host", f"{broker.kind} {broker.version_on_host()}", Rating.NOISE if slow else None,
        "install mosquitto for the broker of the thesis; aMQTT (pure Python) is several times slower" if slow else "",
        only="with PLACEMENT=host",
    )  # fmt: skip
    may = _may_be_real_time()
    yield Finding(
        "real-time for PLACEMENT=host", "permitted" if may else "not permitted", None if may else Rating.BLOCKS,
        "" if may else "run as root; containers get CAP_SYS_NICE from the engine", only="with PLACEMENT=host and fifo:",
    )  # fmt: skip
    ports = sorted(str(path) for pattern in ("ttyUSB*", "ttyACM*") for path in Path("/dev").glob(pattern))
    yield Finding("serial ports", ", ".join(ports) or "none; DEVICE=usb:… needs one, simavr does not")


def _may_be_real_time() -> bool:
    return bool(_effective_capabilities() >> _SYS_NICE & 1) or resource.getrlimit(resource.RLIMIT_RTPRIO)[0] > 0


def _effective_capabilities() -> int:
    try:
        status = Path(f"/proc/{os.getpid()}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:")), 0)
