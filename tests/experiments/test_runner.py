# SPDX-License-Identifier: Apache-2.0
"""What a run makes of a stand that fails: on a scripted stand, without an engine and without a process."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kernel import CONFIGURATION, thread, untouched
from rich.console import Console
from scripted import Flooder
from stand import check_bundle, samples_of

from clients.schedule import Job
from experiments import plan
from experiments.cells import Conditions
from experiments.engine import GONE
from experiments.errors import RequestFailedError, StandError
from experiments.families.control import outcome
from experiments.families.control.roles import ROLES
from experiments.placements import Channel, Configuration, Stand
from experiments.runner import Runner
from experiments.variables import Settings

CYCLES = 20
Fault = Callable[["ScriptedStand"], None]


def _row(job: Job, sequence: int, start_ns: int, *, answered: bool = True) -> list[Any]:
    sent_ns = start_ns + sequence * round(job.interval_ms * 1e6)
    if not answered:
        return [sequence, sent_ns, sent_ns, None, None, None, None, False]
    return [sequence, sent_ns, sent_ns, sent_ns + 2_000_000, 1000, "ok", "none", False]


OPEN = {"user": None, "tls": None, "cipher": None, "server": None}
UNPROTECTED = {"control-loop": OPEN, "pi": OPEN, "broker": {"strangers": True}}
"""What each side says of its connection where SECURITY asks for nothing."""


class ControlLoop(Channel):
    """Answers a job at once, as the control loop would; of all its rows it may tell a few only, and end."""

    def __init__(self, stand: ScriptedStand) -> None:
        super().__init__("control-loop")
        self._stand = stand

    def write(self, data: bytes) -> None:
        """Take a job."""
        job = Job(**json.loads(data))
        self._stand.began(job)
        if "control-loop" in self._stand.dead:
            raise BrokenPipeError
        start_ns = time.monotonic_ns()
        rows = [_row(job, sequence, start_ns) for sequence in range(job.warmup + job.messages)]
        told = {"event": "done", "complete": True, "connection_lost": None, "elapsed_s": 1.0, "cpu_s": 0.01,
                "foreign": 0, "malformed": 0, "qos_seen": [[job.qos, job.qos_answer]], "board_repeats": 0,
                "broker_dropped": [], "reconnections": []}  # fmt: skip
        self._events.put({"event": "ready", "granted_qos": job.qos_answer, "protection": UNPROTECTED})
        self._events.put({"event": "samples", "rows": rows[: self._stand.rows]})
        self._events.put(None if self._stand.rows is not None else told | self._stand.told)


class Observer(Channel):
    """Every proof holds, as long as it lives."""

    def __init__(self, stand: ScriptedStand) -> None:
        super().__init__("observer")
        self._stand = stand

    def ask(self, **request: Any) -> dict[str, Any]:
        """Reply as the observer would."""
        if "observer" in self._stand.dead:
            raise StandError("observer ended unexpectedly; see logs/observer.log")
        if request["do"] == "prove":
            return {"services": {name: self._stand.state(name) for name in request["services"]}}
        if request["do"] == "stop":
            return {"rows": [{"t_ns": 1, "service": "host", "steal_percent": 0.0}], "cpu_s": {"host": 0.0},
                    "observer_cpu_s": 0.0, "longest_gap_ms": self._stand.gap_ms, "seconds": []}  # fmt: skip
        if request["do"] == "apply":
            self._stand.steps.append(f"apply {request['setting']}")
            if self._stand.unable:
                raise RequestFailedError("observer: Operation not permitted")
        return {}


class ScriptedStand(Stand):
    """Breaks as a test tells it to, at a repetition; brought up anew, it is well again."""

    name = "host"
    containers = False
    roles = ROLES

    def __init__(self, faults: dict[int, Fault] | None = None) -> None:
        super().__init__()
        self._faults = dict(faults or {})
        self._repetitions = 0
        self.steps: list[str] = []
        self.down_fails = False
        self.nice = 0
        self._well()

    def _well(self) -> None:
        self.dead: dict[str, str] = {}
        self.rows: int | None = None
        self.told: dict[str, Any] = {}
        self.gap_ms = 100.0
        self.up_fails = False
        self.engine_died = False
        self.unable = False
        self.kernel: dict[str, Any] = {}
        self.flooder = Flooder(self.steps.append)
        self._channels = {"control-loop": ControlLoop(self), "observer": Observer(self), "flooder": self.flooder}

    def began(self, job: Job) -> None:
        """A repetition begins: the fault that is meant for it strikes."""
        del job
        self.steps.append("cycles")
        self._repetitions += 1
        if fault := self._faults.get(self._repetitions):
            fault(self)

    def state(self, service: str) -> dict[str, Any]:
        """What the kernel holds of a service that nobody touched."""
        cpus = self.service(service).cpus
        return untouched(cpus=cpus) | {"threads": [thread(nice=self.nice, cpus=list(cpus))]} | self.kernel

    def prepare(self, folder: Path, run: str) -> dict[str, Any]:
        """Nothing to prepare."""
        del folder, run
        return {}

    def up(self, conditions: Conditions) -> None:
        """Well again, if it was told to start anew."""
        del conditions
        self.steps.append("up")
        if self.up_fails:
            raise StandError("docker compose up failed: no such engine")

    def gone(self) -> str | None:
        """As the engine of containers would be."""
        return GONE if self.engine_died else None

    def reset(self) -> None:
        """Start anew."""
        self.steps.append("reset")
        fails = self.up_fails
        self._well()
        self.up_fails = fails

    def refresh(self) -> None:
        """It is fresh."""
        self.steps.append("fresh broker")

    def configurations(self) -> dict[str, Configuration]:
        """As every proof shows the broker's."""
        return {"broker": Configuration("/broker.conf", CONFIGURATION)}

    def hands(self) -> Any:
        """For no fault at all."""
        return self

    def pids(self) -> dict[str, int]:
        """Some."""
        return dict.fromkeys(("broker", "pi", "control-loop"), 7)

    def ailing(self) -> dict[str, str]:
        """The dead."""
        return dict(self.dead)

    def log(self, service: str) -> bytes:
        """It said nothing."""
        del service
        return b""

    def floor_us(self, interval_ms: int = 5) -> list[int]:
        """Quick."""
        del interval_ms
        return [100] * 100

    def down(self) -> None:
        """Taken down."""
        self.steps.append("down")
        if self.down_fails:
            raise StandError("container broker: gone")


Outcome = tuple[int, dict[str, Any], Path]
Run = Callable[..., Outcome]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run scenario 0 on a scripted stand: the exit code, bundle.json, and the folder."""

    def start(stand: ScriptedStand, **settings: Any) -> Outcome:
        fields: dict[str, Any] = {"intervals": (5,), "qos": (0,), "messages": CYCLES, "warmup": 2, "repetitions": 4}
        planned = plan.of_scenario("0", Settings(**fields | settings | {"seed": 1}), "0123abcd", "host")
        runner = Runner(planned, {"host": stand}, tmp_path / "results", ["make", "scenario-0"], None)
        code = runner.run(Console(quiet=True))
        facts = json.loads((runner.bundle.folder / "bundle.json").read_text())
        check_bundle(runner.bundle.folder)
        for entry in facts["repetitions"]:
            counts = entry["counts"]
            assert counts["offered"] == counts["ok"] + counts["late"] + counts["lost"]
        return code, facts, runner.bundle.folder

    return start


def validities(facts: dict[str, Any]) -> list[tuple[str, bool, int | None]]:
    return [(entry["validity"], entry["counted"], entry["rerun_of"]) for entry in facts["repetitions"]]


VALID = ("valid", True, None)


def test_each_repetition_has_a_fresh_broker_then_its_knobs_then_its_contention_then_its_cycles(run: Run) -> None:
    stand = ScriptedStand()
    stand.nice = -5
    knobs = ",".join(f"{service}=nice:-5" for service in ("broker", "pi", "control-loop"))
    code, facts, _ = run(stand, contention="flood", flood="saturate", priority=knobs, repetitions=2)
    once = ["up", "fresh broker", *["apply nice"] * 3, "flood", "cycles", "flood ends"]
    assert stand.steps == ["up", *once, *once, "down"], "first the floor is measured"
    assert code == 0, facts["reason"]
    assert facts["repetitions"][0]["contention"]["asked"]["saturate"]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (lambda stand: stand.kernel.update(quota=0.5), "broker: quota should be None (untouched) but reads 0.5; "),
        (lambda stand: stand.told.update(board_repeats=3), "board: answers once should be 0 repeated (0 repeated)"),
        (lambda stand: stand.told.update(qos_seen=[[0, 1]]), "broker: qos of requests, answers should be 0, 0 (0, 0)"),
        (lambda stand: stand.flooder.accounts[0].update(failed_connects=2), "2 clients of the flood could not connect"),
    ],
)
def test_what_was_not_as_asked_refuses_the_repetition(run: Run, fault: Fault, reason: str) -> None:
    stand = ScriptedStand({1: fault, 2: fault})
    code, facts, _ = run(stand, contention="flood", flood="saturate", repetitions=1)
    assert (code, facts["status"]) == (3, "refused")
    entry = facts["repetitions"][0]
    assert (entry["validity"], entry["counted"]) == ("refused", False)
    assert entry["reasons"][0].startswith(reason)


def test_what_the_broker_says_it_dropped_becomes_increases_also_where_it_began_anew() -> None:
    rows = outcome.drops([(1, 5), (2, 5), (3, 9), (4, 2)])
    assert [(row["t_ns"], row["sys_dropped"]) for row in rows] == [(2, 0), (3, 4), (4, 2)]


def test_a_stand_that_is_well_gives_a_complete_bundle(run: Run) -> None:
    stand = ScriptedStand()
    code, facts, _ = run(stand)
    assert (code, facts["status"], facts["reason"]) == (0, "complete", None)
    assert validities(facts) == [VALID] * 4
    assert "reset" not in stand.steps


def die(*services: str) -> Fault:
    return lambda stand: stand.dead.update({name: f"{name} has stopped; see logs/{name}.log" for name in services})


def lose_the_control_loop(stand: ScriptedStand) -> None:
    stand.rows = 7


def lose_the_broker(stand: ScriptedStand) -> None:
    stand.told = {"connection_lost": "Connection refused; the broker did not come back"}


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (die("pi"), "pi has stopped; see logs/pi.log"),
        (die("board"), "board has stopped; see logs/board.log"),
        (die("observer"), "observer ended unexpectedly; see logs/observer.log"),
        (die("control-loop"), "control-loop has ended; see logs/control-loop.log"),
        (lose_the_control_loop, "control-loop ended unexpectedly; see logs/control-loop.log"),
        (lose_the_broker, "Connection refused; the broker did not come back"),
        # What went wrong first, and what else lies dead: one is the other's cause.
        (
            die("control-loop", "broker"),
            "control-loop has ended; see logs/control-loop.log; broker has stopped; see logs/broker.log",
        ),
    ],
)
def test_a_dead_service_costs_its_repetition_which_is_run_again_and_never_the_run(
    run: Run, fault: Fault, reason: str
) -> None:
    stand = ScriptedStand({2: fault})
    code, facts, _ = run(stand)
    assert (code, facts["status"]) == (0, "complete")
    assert validities(facts) == [VALID, ("interrupted", False, None), VALID, VALID, ("valid", True, 2)]
    assert facts["repetitions"][1]["reasons"][0] == reason
    # It was brought up anew before the next one.
    after = stand.steps[stand.steps.index("reset") :]
    assert [step for step in after if step in {"up", "reset"}] == ["reset", "up", "up", "up"]


def test_cycles_that_a_dead_control_loop_did_not_tell_of_are_lost_not_gone(run: Run) -> None:
    _, facts, folder = run(ScriptedStand({2: lose_the_control_loop}))
    broken = facts["repetitions"][1]
    # Two of the seven that it told of were warm-up.
    assert broken["counts"] == {"offered": CYCLES, "sent": 5, "ok": 5, "late": 0, "lost": 15, "duplicate": 0}
    lost = [row for row in samples_of(folder) if row["status"] == "lost"]
    assert {row["cause"] for row in lost} <= {"not sent", "not reported"}
    assert lost[-1]["cause"] == "not sent", "it was due after the end"
    assert all(row["intended_ns"] for row in lost)


def test_a_repetition_that_fails_again_when_it_is_run_again_leaves_a_partial_bundle(run: Run) -> None:
    code, facts, _ = run(ScriptedStand({2: die("pi"), 5: die("pi")}))
    assert (code, facts["status"]) == (1, "partial")
    assert facts["reason"] == "1 repetitions do not count, the first because pi has stopped; see logs/pi.log"
    assert validities(facts)[-1] == ("interrupted", False, 2)


def test_a_stand_that_does_not_come_back_ends_the_run_after_three(run: Run) -> None:
    def gone(stand: ScriptedStand) -> None:
        stand.dead["pi"] = "pi has stopped"
        stand.up_fails = True

    stand = ScriptedStand({2: gone})
    code, facts, _ = run(stand, repetitions=50)
    assert (code, facts["status"]) == (1, "partial")
    assert facts["reason"].startswith(
        "3 repetitions in a row failed, at last repetition 4 at 5 ms, QoS 0: docker compose up"
    )
    assert validities(facts) == [VALID, *[("interrupted", False, None)] * 3]
    assert facts["repetitions"][-1]["counts"]["offered"] == 0
    assert stand.steps[-1] == "down"


def test_an_engine_that_dies_ends_the_run_at_once_with_the_remedy(run: Run) -> None:
    def dies(stand: ScriptedStand) -> None:
        stand.rows = 1
        stand.engine_died = True

    code, facts, _ = run(ScriptedStand({2: dies}), repetitions=50)
    assert (code, facts["status"]) == (1, "partial")
    assert facts["reason"].endswith(GONE)
    assert "`make clean` removes what is left" in GONE
    assert [each["validity"] for each in facts["repetitions"]] == ["valid", "interrupted"]
    assert facts["repetitions"][-1]["counts"]["offered"] == facts["plan"]["messages"]


def test_a_knob_that_cannot_be_had_ends_the_run_at_once(run: Run) -> None:
    stand = ScriptedStand()
    stand.unable = True
    code, facts, _ = run(stand, priority="broker=nice:-5")
    assert (code, facts["status"]) == (3, "refused")
    assert "broker=nice:-5: observer: Operation not permitted" in facts["reason"]
    assert validities(facts) == [("refused", False, None)]


def test_a_knob_whose_service_just_died_costs_its_repetition_only(run: Run) -> None:
    stand = ScriptedStand()
    stand.unable, stand.dead = True, {"broker": "broker has stopped"}
    code, facts, _ = run(stand, priority="broker=nice:0")
    assert (code, facts["status"]) == (0, "complete")
    assert facts["repetitions"][0]["reasons"] == ["broker has stopped"]


def test_a_silent_observer_makes_a_repetition_noisy(run: Run) -> None:
    def freeze(stand: ScriptedStand) -> None:
        stand.gap_ms = 5000.0

    def thaw(stand: ScriptedStand) -> None:
        stand.gap_ms = 100.0

    code, facts, _ = run(ScriptedStand({2: freeze, 3: thaw}))
    assert code == 0
    assert validities(facts) == [VALID, ("noisy", False, None), VALID, VALID, ("valid", True, 2)]
    assert facts["repetitions"][1]["reasons"] == ["observer_gap_ms 5000 is above 1000"]


def test_what_a_superseded_repetition_lost_stays_in_the_bundle(run: Run) -> None:
    _, facts, folder = run(ScriptedStand({2: lose_the_control_loop}))
    superseded, again = facts["repetitions"][1], facts["repetitions"][-1]
    assert (superseded["counted"], again["counted"], again["rerun_of"]) == (False, True, superseded["repetition"])
    assert superseded["counts"]["lost"] == 15
    assert sum(row["status"] == "lost" and row["repetition"] == 2 for row in samples_of(folder)) == 15


def test_tidying_that_fails_is_said_and_the_bundle_is_sealed_all_the_same(run: Run) -> None:
    stand = ScriptedStand()
    stand.down_fails = True
    code, facts, folder = run(stand)
    assert code == 1, "something is left"
    assert facts["status"] == "complete"
    assert (folder / "SHA256SUMS").exists()
