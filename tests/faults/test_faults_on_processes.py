# SPDX-License-Identifier: Apache-2.0
"""Faults on real processes: what the bundle says of each agrees with its samples, and nothing is left of it."""

from __future__ import annotations

from typing import Any

import pytest
from stand import Runner, check_bundle

HOST = ("PLACEMENT=host", "DEVICE=model", "REPETITIONS=1", "INTERVALS=20", "WARMUP=2", "BROKER=amqtt")


@pytest.fixture
def run(runner: Runner) -> Any:
    def start(*swaps: str, scenario: str = "1") -> dict[str, Any]:
        code, said = runner.run("run", scenario, *HOST, *swaps)
        assert code == 0, said
        check_bundle(runner.bundle)
        return runner.facts()

    return start


def proved(facts: dict[str, Any]) -> dict[str, Any]:
    """The fault of the first repetition, which counts or was noisy on a busy host, and never anything else."""
    entry = facts["repetitions"][0]
    assert entry["validity"] in {"valid", "noisy"}, entry["reasons"]
    fault: dict[str, Any] = entry["fault"]
    assert fault["error"] is None
    assert fault["evidence"]
    assert all(each["holds"] for each in fault["evidence"])
    assert fault["requested_at_ns"] <= fault["injected_ns"] <= fault["in_force_ns"] <= fault["ended_ns"]
    return fault


def answered_between(runner: Runner, begin_ns: int, end_ns: int) -> int:
    rows = [row for row in runner.samples() if row["repetition"] == 1 and row["received_ns"] is not None]
    return sum(begin_ns < row["received_ns"] < end_ns for row in rows)


@pytest.mark.parametrize("service", ["broker", "pi"])
def test_while_a_service_is_frozen_nothing_is_answered(run: Any, runner: Runner, service: str) -> None:
    facts = run(f"FAULT={service}:freeze:1s", "MESSAGES=400")
    fault = proved(facts)
    assert {cell["fault"] for cell in facts["plan"]["cells"]} == {f"{service}:freeze:1s"}
    assert fault["ended_ns"] - fault["in_force_ns"] >= 1_000_000_000
    assert answered_between(runner, fault["in_force_ns"], fault["ended_ns"]) == 0
    assert answered_between(runner, fault["ended_ns"], 2**63) > 0


def test_a_board_that_is_reset_says_its_banner_and_answers_again(run: Any, runner: Runner) -> None:
    fault = proved(run("FAULT=board:reset", "MESSAGES=450", "FAULT_AT_MS=1000"))
    rows = [row for row in runner.samples() if row["repetition"] == 1 and row["sent_ns"] > fault["in_force_ns"]]
    assert any(row["cause"] == "board timeout" for row in rows)
    assert rows[-1]["status"] == "ok"


def test_a_port_that_is_unplugged_fails_cycles_until_it_is_back(run: Any, runner: Runner) -> None:
    fault = proved(run("FAULT=serial:unplug:500ms", "MESSAGES=450", "FAULT_AT_MS=1000"))
    rows = [row for row in runner.samples() if row["repetition"] == 1]
    meanwhile = [row for row in rows if fault["in_force_ns"] < row["sent_ns"] < fault["in_force_ns"] + 400_000_000]
    assert {row["cause"] for row in meanwhile} == {"board error"}
    assert rows[-1]["status"] == "ok"


def test_what_a_board_cannot_do_is_refused_before_anything_starts(runner: Runner) -> None:
    code, said = runner.run("run", "0", *HOST, "DEVICE=none", "FAULT=board:reset", "MESSAGES=1000")
    assert code == 2
    assert said.startswith("testbed: FAULT=board:reset: here no program is the board; say DEVICE=simavr")
    assert not (runner.folder / "results").exists()
