# SPDX-License-Identifier: Apache-2.0
"""Each study as one command: all arms in one bundle, each in its own conditions, proved."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from stand import Runner

from experiments.cpus import cpu_sets
from experiments.knobs.flags import NOTICE

pytestmark = pytest.mark.engine

Cells = list[dict[str, Any]]
Study = Callable[..., "Done"]


class Done:
    """A study's bundle, by arm."""

    def __init__(self, runner: Runner, said: str) -> None:
        self.said = said
        self._runner = runner
        self.facts = runner.facts()
        self.cells: Cells = self.facts["plan"]["cells"]
        self.arms = list(dict.fromkeys(cell["arm"] for cell in self.cells))
        self.samples = runner.samples()

    def repetitions(self, arm: str) -> list[dict[str, Any]]:
        return [each for each in self.facts["repetitions"] if self.cells[each["cell"]]["arm"] == arm]

    def priorities(self, arm: str, service: str) -> set[tuple[str, int]]:
        """(policy, priority) of every thread of a service in every repetition of an arm."""
        proofs = [
            proof for each in self.repetitions(arm) for proof in each["proofs"]
            if (proof["service"], proof["knob"]) == (service, "priority")
        ]  # fmt: skip
        assert len(proofs) == len(self.repetitions(arm)) > 0
        return {(thread["policy"], thread["priority"]) for proof in proofs for thread in proof["observed"]["threads"]}

    def observed(self, arm: str, service: str, knob: str) -> list[Any]:
        """What was read of a knob, repetition by repetition."""
        return [
            proof["observed"]["value"] for each in self.repetitions(arm) for proof in each["proofs"]
            if (proof["service"], proof["knob"]) == (service, knob)
        ]  # fmt: skip

    def compose(self, arm: str) -> str:
        """The Compose file of an arm's conditions, the same one in every repetition."""
        (name,) = {str(each["compose"]) for each in self.repetitions(arm)}
        return str((self._runner.bundle / name).read_text())

    def t_p50_us(self, arm: str, qos: int) -> float:
        t_us = [
            row["t_us"] for row in self.samples
            if (row["arm"], row["qos"], row["warmup"]) == (arm, qos, False) and row["status"] in {"ok", "late"}
        ]  # fmt: skip
        return float(statistics.median(t_us))


@pytest.fixture
def study(runner: Runner) -> Study:
    """Run a study and check what holds for each: complete, accounted for cell by cell, every proof holding."""

    def run(name: str, *swaps: str) -> Done:
        code, said = runner.run("study", name, "REPETITIONS=1", *swaps)
        assert code == 0, said
        done = Done(runner, said)
        assert (done.facts["status"], done.facts["reason"]) == ("complete", None)
        rows = Counter(
            (row["arm"], row["interval_ms"], row["qos"], row["repetition"], row["status"])
            for row in done.samples if not row["warmup"]
        )  # fmt: skip
        for each in done.facts["repetitions"]:
            assert each["proofs"]
            assert all(proof["holds"] for proof in each["proofs"])
            cell, counts = done.cells[each["cell"]], each["counts"]
            assert counts["offered"] == counts["ok"] + counts["late"] + counts["lost"] == done.facts["plan"]["messages"]
            for status in ("ok", "late", "lost", "duplicate"):
                key = (cell["arm"], cell["interval_ms"], cell["qos"], each["repetition"], status)
                assert rows[key] == counts[status]
        ran = [each["cell"] for each in done.facts["repetitions"] if each["rerun_of"] is None]
        assert sorted(ran) == list(range(len(done.cells))), "every cell once in this round"
        return done

    return run


def test_study_qos_shows_that_nagle_makes_qos_2_slow(study: Study) -> None:
    done = study("qos", "MESSAGES=30")
    assert {(cell["arm"], cell["qos"]) for cell in done.cells} == {
        (arm, qos) for arm in ("nodelay", "nagle") for qos in (0, 1, 2)
    }
    for arm in done.arms:
        for service in ("broker", "control-loop", "pi"):
            assert set(done.observed(arm, service, "tcp")) == {arm}
        assert f"/mosquitto/config/{arm}.conf" in done.compose(arm)
    assert done.t_p50_us("nagle", 2) >= 2 * done.t_p50_us("nodelay", 2)


def test_study_arduino_has_each_arms_own_board_in_every_sample(study: Study) -> None:
    done = study("arduino", "MESSAGES=20")
    assert {(row["arm"], row["board"]) for row in done.samples} == {
        (name, name) for name in ("simavr", "model", "none")
    }
    assert {row["status"] for row in done.samples} == {"ok"}


def test_study_priority_holds_each_arms_knob_and_no_other(study: Study) -> None:
    done = study("priority", "MESSAGES=20", "SEED=52")
    assert len(done.arms) == 7
    # What one arm set from outside must not outlive it: by this seed those meet that would notice.
    ran = [done.cells[each["cell"]]["arm"] for each in done.facts["repetitions"]]
    assert ran[3:6] == ["fifo client", "fifo both", "none"]
    ordinary, fifo = {("SCHED_OTHER", 0)}, {("SCHED_FIFO", 90)}
    for arm in done.arms:
        assert done.priorities(arm, "broker") == (fifo if arm in {"fifo broker", "fifo both"} else ordinary)
        assert done.priorities(arm, "control-loop") == (fifo if arm in {"fifo client", "fifo both"} else ordinary)
        pi_cpus = [int(cpu) for cpu in cpu_sets()[1].split(",")]
        for service in ("broker", "control-loop"):
            weighted = set(done.observed(arm, service, "weight")) != {"default"}
            assert weighted == (arm == "weight")
            moved = done.observed(arm, service, "affinity")[0] == pi_cpus
            assert moved == (arm == "affinity" or cpu_sets()[0] == cpu_sets()[1])
    assert f"testbed: {NOTICE}" in done.said


def test_study_docker_has_both_placements_in_one_bundle(study: Study) -> None:
    done = study("docker", "MESSAGES=20")
    assert {cell["arm"]: cell["placement"] for cell in done.cells} == {"docker": "docker", "host": "host"}
    assert done.facts["placement"] == "docker+host"
    assert done.facts["engine"]["version"], "the host's lack of an engine does not hide it"
    assert {row["arm"] for row in done.samples if row["status"] == "ok"} == {"docker", "host"}
