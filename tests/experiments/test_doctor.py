# SPDX-License-Identifier: Apache-2.0
"""What the doctor says of hosts that this one is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from experiments import doctor, engine
from experiments.doctor import Finding, Rating

FACTS: dict[str, Any] = {
    "kernel": "6.12.0", "machine": "x86_64", "virtual": True, "cgroup": "v2", "rt_group_sched": False, "psi": True,
}  # fmt: skip
TUNING: dict[str, Any] = {
    "governors": ["performance"], "smt": False, "isolated": "", "swap_used_bytes": 0, "pressure_percent": 0.4,
    "rt_runtime_us": 950000, "memory_controller": True, "steal_percent": 0.0,
}  # fmt: skip
VERSION = {"Version": "26.1.5"}
INFO: dict[str, Any] = {"CgroupDriver": "systemd", "Driver": "overlay2", "MemoryLimit": True}


def misses(findings: list[Finding]) -> dict[str, tuple[Rating, str]]:
    for finding in findings:
        assert bool(finding.rating) == bool(finding.remedy), finding
    return {finding.what: (finding.rating, finding.only) for finding in findings if finding.rating}


@pytest.mark.parametrize(
    ("cgroup", "budgets", "miss"),
    [
        ("v2", False, {}),  # Debian, Ubuntu
        ("v2", None, {}),
        ("hybrid", True, {}),
        ("v1", True, {}),
        ("v2", True, {"real-time": (Rating.BLOCKS, "with fifo: or rr:")}),
        ("none", None, {"cgroup": (Rating.BLOCKS, "")}),
    ],
)
def test_real_time_is_blocked_only_where_budgets_cannot_be_given(
    cgroup: str, budgets: bool | None, miss: dict[str, Any]
) -> None:
    findings = list(doctor.of_machine(FACTS | {"cgroup": cgroup, "rt_group_sched": budgets}))
    assert misses(findings) == miss


def test_unknown_is_not_called_bare_metal() -> None:
    said = next(iter(doctor.of_machine(FACTS | {"virtual": None}))).state
    assert "unknown" in said
    assert "bare metal" not in said


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({}, None),
        ({"governors": ["powersave", "performance"]}, "frequency governor"),
        ({"smt": True}, "SMT"),
        ({"smt": None, "governors": [], "pressure_percent": None}, None),
        ({"swap_used_bytes": 2**20}, "swap"),
        ({"pressure_percent": 60.0}, "CPU pressure"),
        ({"steal_percent": 7.5}, "steal"),
        ({"steal_percent": None}, None),
    ],
)
def test_what_disturbs_is_rated_as_noise(change: dict[str, Any], what: str | None) -> None:
    expected = {what: (Rating.NOISE, "")} if what else {}
    assert misses(list(doctor.of_tuning(TUNING | change))) == expected


def test_an_engine_that_ignores_limits_weakens_or_blocks() -> None:
    assert misses(list(doctor.of_engine(VERSION, INFO, "2.26.1", "0.13.1"))) == {}
    ignored = list(doctor.of_engine(VERSION, INFO | {"MemoryLimit": False, "CPUSet": False}, "2.26.1", "0.13.1"))
    assert misses(ignored) == {
        "memory limits": (Rating.WEAKENS, ""),
        "CPU controller": (Rating.BLOCKS, "with cpus:"),
    }


def test_nothing_is_said_of_capabilities_that_the_engine_supplies() -> None:
    said = " ".join(finding.what + finding.state + finding.remedy for finding in doctor.examine())
    assert "SYS_RESOURCE" not in said
    assert "NET_RAW" not in said


def test_without_permission_for_the_engine_the_remedy_is_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "lacking", lambda: engine.Lack(engine.NO_PERMISSION, engine.JOIN_GROUP))
    console = Console(record=True, width=80)
    assert doctor.print_report(console) == 1
    said = console.export_text()
    assert "container engine: the engine is there but you may not use it" in said
    assert "blocks a run → join group docker (sudo usermod -aG docker $USER, then log in again)" in said


def test_other_runs_are_found_by_their_command_line(tmp_path: Path) -> None:
    commands = {
        "11": b"python\0-m\0experiments\0run\x001\0",
        "12": b"python\0-m\0experiments\0doctor\0",
        "13": b"vim\0experiments\0run\0",
        "14": b"python\0-m\0experiments\0study\0qos\0",
        "15": b"experiments\0",
        "16": b"",
    }
    for pid, command in commands.items():
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "cmdline").write_bytes(command)
    assert doctor.other_runs(tmp_path) == [11, 14]
