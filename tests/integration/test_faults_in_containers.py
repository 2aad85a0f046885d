# SPDX-License-Identifier: Apache-2.0
"""Faults on real containers: proved by engine and kernel, and their recovery as an independent reading has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from containers import left_of
from stand import Runner, check_bundle

from analysis.reading.bundle import read
from analysis.showing import derived, verify
from analysis.statistics import per_cell, recovery

pytestmark = pytest.mark.engine

DOCKER = ("PLACEMENT=docker", "DEVICE=model", "REPETITIONS=1", "INTERVALS=20", "MESSAGES=450", "WARMUP=2")


def run(runner: Runner, *swaps: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The fault of the first repetition, proved, and its rows; the bundle verified, nothing left."""
    code, said = runner.run("run", "1", *DOCKER, *swaps)
    assert code == 0, said
    check_bundle(runner.bundle)
    facts = runner.facts()
    entry = facts["repetitions"][0]
    assert entry["validity"] in {"valid", "noisy"}, entry["reasons"]
    assert entry["fault"]["error"] is None
    assert entry["fault"]["evidence"]
    assert all(each["holds"] for each in entry["fault"]["evidence"])
    assert left_of(f"testbed-{facts['plan']['run']}") == []
    rows = [row for row in runner.samples() if row["repetition"] == 1 and row["status"] != "duplicate"]
    return entry["fault"], sorted(rows, key=lambda row: row["sequence"])


def recovered_us(fault: dict[str, Any], rows: list[dict[str, Any]]) -> float:
    """From the fault to the first answer of ten in a row, read off the rows."""
    due = [row for row in rows if (row["sent_ns"] or row["intended_ns"]) >= fault["in_force_ns"]]
    first = next(i for i in range(len(due) - 9) if all(row["status"] == "ok" for row in due[i : i + 10]))
    return float(due[first]["received_ns"] - fault["injected_ns"]) / 1000


def check_derived(folder: Path, fault: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    bundle = read(folder)
    derived.write(bundle, per_cell.summarise(bundle), bundle.folder)
    found = {(each.repetition): each for each in recovery.of(bundle)[0].recoveries}
    if 1 in found:  # not where a noisy repetition was run again
        assert found[1].recovery_us == pytest.approx(recovered_us(fault, rows), abs=1)
    assert verify.verify(bundle.folder).findings == ()


def test_a_killed_broker_is_another_process_and_the_loop_comes_back(runner: Runner) -> None:
    fault, rows = run(runner, "FAULT=broker:kill", "PRIORITY=broker=nice:-5")
    assert any("exit status 137" in each["read"] for each in fault["evidence"])
    assert any(row["status"] == "lost" for row in rows)
    assert rows[-1]["status"] == "ok"
    proofs = {(each["service"], each["knob"]): each for each in runner.facts()["repetitions"][0]["proofs"]}
    assert proofs["broker", "priority"]["holds"], "given to the new process again"
    sampled = [row["t_ns"] for row in runner.resources() if row["service"] == "broker" and row["cpu_percent"]]
    assert max(sampled) > rows[-1]["sent_ns"] - 1_000_000_000, "and sampled on, to the end"
    check_derived(runner.bundle.resolve(), fault, rows)


def test_a_link_that_is_cut_loses_nothing_that_tcp_can_send_again(runner: Runner) -> None:
    fault, rows = run(runner, "FAULT=link:cut:1s", "QOS=1")
    between = [row for row in rows if row["received_ns"] and fault["in_force_ns"] < row["received_ns"]]
    assert min(row["received_ns"] for row in between) > fault["in_force_ns"] + 900_000_000
    assert rows[-1]["status"] == "ok"
    check_derived(runner.bundle.resolve(), fault, rows)


def test_a_frozen_pi_answers_nothing_meanwhile(runner: Runner) -> None:
    fault, rows = run(runner, "FAULT=pi:freeze:1s")
    answered = [row["received_ns"] for row in rows if row["received_ns"] is not None]
    assert not [
        at_ns for at_ns in answered if fault["in_force_ns"] + 20_000_000 < at_ns < fault["ended_ns"] - 20_000_000
    ]
    assert rows[-1]["status"] == "ok"


def test_a_port_unplugged_in_containers_comes_back(runner: Runner) -> None:
    _, rows = run(runner, "FAULT=serial:unplug:500ms")
    assert {row["cause"] for row in rows if row["status"] == "lost"} >= {"board error"}
    assert rows[-1]["status"] == "ok"


def test_a_full_disk_is_the_brokers_own_and_the_loop_goes_on(runner: Runner) -> None:
    fault, rows = run(runner, "FAULT=disk:full", "QOS=1", "SESSION=persistent")
    assert fault["evidence"][0]["read"] == "0 bytes free"
    assert rows[-1]["status"] == "ok"


def test_a_persistent_session_outlives_the_brokers_kill(runner: Runner) -> None:
    fault, rows = run(runner, "FAULT=broker:kill", "QOS=1", "SESSION=persistent")
    assert {cell["session"] for cell in runner.facts()["plan"]["cells"]} == {"persistent"}
    (configuration,) = [
        proof for proof in runner.facts()["repetitions"][0]["proofs"] if proof["knob"] == "configuration"
    ]
    assert "persistence true" in configuration["text"]
    check_derived(runner.bundle.resolve(), fault, rows)
