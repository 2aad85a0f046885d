# SPDX-License-Identifier: Apache-2.0
"""The control loop as the runner and a person use it: a process, its standard streams and its exit code."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from paho.mqtt.client import MQTTMessage
from stand import PATIENCE_S, ROOT, Program, Responder, RunningBroker, Script, answer_to, free_port

from clients.control_loop import ControlLoop
from clients.way import Way
from clients.wire import Request

Start = Callable[..., Program]
Respond = Callable[[Script], Responder]


def job(**changes: Any) -> str:
    fields = {
        "run": "0123abcd", "repetition": 1, "interval_ms": 5, "messages": 20, "warmup": 2, "qos": 0, "qos_answer": 0,
        "timeout_ms": 100,
    }  # fmt: skip
    return json.dumps(fields | changes)


@pytest.fixture
def loop(program: Start, broker: RunningBroker) -> Program:
    """A control loop that waits for jobs."""
    started = program(
        "clients.control_loop", "--jobs", "--broker", "127.0.0.1", "--port", str(broker.port), "--patience-s", "5"
    )
    started.event("waiting")
    return started


def rows(events: list[dict[str, Any]]) -> list[list[Any]]:
    return [row for event in events if event["event"] == "samples" for row in event["rows"]]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_job_is_answered_by_ready_samples_and_done(loop: Program, respond: Respond, qos: int) -> None:
    respond(lambda request: [answer_to(request)])
    loop.send(job(qos=qos, qos_answer=qos))
    assert loop.event("ready")["granted_qos"] == qos
    events = loop.events_until("done")
    assert [row[0] for row in rows(events)] == list(range(22))
    assert {row[5] for row in rows(events)} == {"ok"}
    done = events[-1]
    assert (done["complete"], done["connection_lost"], done["foreign"], done["malformed"]) == (True, None, 0, 0)
    assert 0 < done["cpu_s"] < done["elapsed_s"]


def test_jobs_follow_one_another_and_a_line_stop_ends_the_program(loop: Program, respond: Respond) -> None:
    respond(lambda request: [answer_to(request)])
    for repetition in (1, 2):
        loop.send(job(repetition=repetition))
        assert len(rows(loop.events_until("done"))) == 22
    loop.send("stop")
    assert loop.wait() == 0


def test_the_end_of_input_ends_the_program(loop: Program) -> None:
    loop.end_input()
    assert loop.wait() == 0


def test_the_end_of_input_cuts_a_repetition_short_and_keeps_its_rows(loop: Program, respond: Respond) -> None:
    respond(lambda request: [answer_to(request)])
    loop.send(job(messages=10_000, interval_ms=10))
    loop.event("samples")
    loop.end_input()
    events = loop.events_until("done")
    assert not events[-1]["complete"]
    assert events[-1]["connection_lost"] is None
    assert rows(events)
    assert loop.wait() == 0


def test_a_broker_killed_in_a_repetition_is_said_with_the_rows_so_far(
    loop: Program, broker: RunningBroker, respond: Respond
) -> None:
    respond(lambda request: [answer_to(request)])
    loop.send(job(messages=300, interval_ms=10))
    before = rows(loop.events_until("samples"))
    broker.kill()
    events = loop.events_until("done")
    assert events[-1]["connection_lost"].endswith("; the broker did not come back")
    assert not events[-1]["complete"]
    (gone,) = events[-1]["reconnections"]
    assert gone["cause"]
    assert gone["back_ns"] is None
    filed = before + rows(events)
    assert [row[0] for row in filed] == list(range(302))
    assert {row[5] for row in before} == {"ok"}
    assert filed[-1][2] is None
    # The next job finds the next broker.
    broker.start()
    respond(lambda request: [answer_to(request)])
    loop.send(job(repetition=2))
    assert loop.events_until("done")[-1]["complete"]


def test_a_broker_that_comes_back_within_a_repetition_costs_the_cycles_between(
    loop: Program, respond: Respond, broker: RunningBroker
) -> None:
    respond(lambda request: [answer_to(request)])
    loop.send(job(messages=1500, interval_ms=5, qos=1, qos_answer=1))
    before = rows(loop.events_until("samples"))
    broker.kill()
    broker.start()
    respond(lambda request: [answer_to(request)])
    events = loop.events_until("done")
    assert (events[-1]["complete"], events[-1]["connection_lost"]) == (True, None)
    (back,) = events[-1]["reconnections"]
    assert back["cause"]
    assert back["back_ns"] > back["lost_ns"]
    filed = before + rows(events)
    assert [row[0] for row in filed] == list(range(1502))
    # Nothing is sent belatedly: what was due meanwhile is missing, what came after is not.
    unsent = [row for row in filed if row[2] is None]
    assert unsent
    assert all(row[1] <= back["back_ns"] for row in unsent)
    after = [row for row in filed if row[1] > back["back_ns"]]
    assert all(row[2] >= row[1] for row in after)
    assert after[-1][5] == "ok"


def test_what_other_brokers_say_of_drops_harms_nothing() -> None:
    loop = ControlLoop(Way("127.0.0.1", 1), lambda **_: None)
    message = MQTTMessage(topic=b"$SYS/broker/publish/messages/dropped")
    for message.payload in (b"a few", b"", b"-1", b"7"):
        loop._on_message(message)
    assert [total for _, total in loop._dropped] == [7]


def test_late_answers_to_probes_are_nobody_elses(loop: Program, respond: Respond) -> None:
    def late(request: Request) -> list[Any]:
        return [answer_to(request, repetition=0, sequence=3), answer_to(request)]

    respond(late)
    loop.send(job())
    events = loop.events_until("done")
    assert (events[-1]["complete"], events[-1]["foreign"]) == (True, 0)
    assert {row[5] for row in rows(events)} == {"ok"}


def test_without_an_answer_from_the_pi_a_job_fails_and_says_so(program: Start, broker: RunningBroker) -> None:
    loop = program("clients.control_loop", "--jobs", "--broker", "127.0.0.1", "--port", str(broker.port),
                   "--patience-s", "0.1")  # fmt: skip
    loop.send(job())
    assert "no answer from Pi and board" in loop.event("failed")["reason"]
    loop.send("stop")
    assert loop.wait() == 0


def test_malformed_answers_are_counted_and_harm_nothing(loop: Program, respond: Respond) -> None:
    respond(lambda request: [b"\xff", b"1 nonsense", answer_to(request)])
    loop.send(job())
    events = loop.events_until("done")
    assert events[-1]["malformed"] == 2 * 22
    assert {row[5] for row in rows(events)} == {"ok"}


def by_hand(port: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "clients.control_loop", "--broker", "127.0.0.1", "--port", str(port),
         "--interval-ms", "2", "--messages", "20", "--warmup", "1", "--timeout-ms", "100", *arguments],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=3 * PATIENCE_S,
    )  # fmt: skip


def test_by_hand_it_prints_t_and_r_and_succeeds(broker: RunningBroker, respond: Respond) -> None:
    respond(lambda request: [answer_to(request, r_us=1234)])
    done = by_hand(broker.port)
    assert (done.returncode, done.stderr) == (0, "")
    counted, t_us, r_us = done.stdout.splitlines()
    assert counted == "20 of 20 answered by board none"
    assert re.fullmatch(r"T µs: min \d+, p50 \d+, p99 \d+, max \d+", t_us)
    assert r_us == "R µs: min 1234, p50 1234, p99 1234, max 1234"


@pytest.mark.parametrize("failing", ["silent", "board-timeout"])
def test_by_hand_it_fails_when_a_cycle_is_lost(broker: RunningBroker, respond: Respond, failing: str) -> None:
    def lose_7(request: Request) -> list[Any]:
        if request.sequence != 7:
            return [answer_to(request)]
        return [] if failing == "silent" else [answer_to(request, outcome=failing)]

    respond(lose_7)
    done = by_hand(broker.port)
    assert (done.returncode, done.stdout.splitlines()[0]) == (1, "19 of 20 answered by board none")


def test_by_hand_it_says_in_one_line_that_no_broker_is_there() -> None:
    port = free_port()
    done = by_hand(port, "--patience-s", "0.1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"control-loop: no broker at 127.0.0.1:{port}")
    assert len(done.stderr.splitlines()) == 1
