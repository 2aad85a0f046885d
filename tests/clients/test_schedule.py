# SPDX-License-Identifier: Apache-2.0
"""The open loop over a real broker, with a script in the Pi's place: what is asserted is the order of events."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from paho.mqtt.client import MQTTMessage
from stand import PATIENCE_S, Responder, RunningBroker, Script, answer_to

from clients.connection import Connection, ConnectionLostError
from clients.schedule import Job, Schedule
from clients.way import Way
from clients.wire import Answer, Request, answer_topic

JOB = Job(run="0123abcd", repetition=1, interval_ms=2, messages=8, warmup=2, qos=0, qos_answer=0, timeout_ms=100)
TOTAL = 10

Respond = Callable[[Script], Responder]


class Loop:
    """A schedule on a connection of its own."""

    def __init__(self, port: int, job: Job) -> None:
        self._connection = Connection(Way("127.0.0.1", port), client_id="loop", on_message=self._receive)
        self._connection.open(timeout_s=PATIENCE_S)
        self._connection.subscribe(answer_topic(job.run), 2, timeout_s=PATIENCE_S)
        self.schedule = Schedule(job)

    def run(self, idle: Callable[[int], bool] = lambda _until_ns: True) -> bool:
        return self.schedule.run(self._connection, idle)

    def _receive(self, message: MQTTMessage) -> None:
        received_ns = time.monotonic_ns()
        self.schedule.receive(Answer.decode(bytes(message.payload)), message.qos, received_ns)


def run(broker: RunningBroker, job: Job = JOB) -> Schedule:
    loop = Loop(broker.port, job)
    assert loop.run()
    return loop.schedule


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_every_request_is_sent_once_and_filed_under_its_own_cycle(
    broker: RunningBroker, respond: Respond, qos: int
) -> None:
    responder = respond(lambda request: [answer_to(request)])
    schedule = run(broker, replace(JOB, qos=qos, qos_answer=qos))
    assert responder.requests == [Request(JOB.run, 1, sequence, qos) for sequence in range(TOTAL)]
    assert [cycle.r_us for cycle in schedule.cycles] == [1000 + sequence for sequence in range(TOTAL)]
    assert (schedule.foreign, schedule.duplicates, schedule.missing) == (0, [], 0)


def test_send_times_are_fixed_beforehand_and_never_early(broker: RunningBroker, respond: Respond) -> None:
    respond(lambda request: [answer_to(request)])
    schedule = run(broker)
    intended = [cycle.intended_ns for cycle in schedule.cycles]
    assert intended == [intended[0] + 2_000_000 * sequence for sequence in range(TOTAL)]
    for cycle in schedule.cycles:
        assert cycle.sent_ns is not None
        assert cycle.received_ns is not None
        assert cycle.intended_ns <= cycle.sent_ns < cycle.received_ns


def test_an_answer_that_stalls_delays_no_request_behind_it(broker: RunningBroker, respond: Respond) -> None:
    held: list[Request] = []

    def hold_all_until_the_last(request: Request) -> Iterator[Answer]:
        held.append(request)
        if request.sequence == TOTAL - 1:
            yield from (answer_to(each) for each in held)

    respond(hold_all_until_the_last)
    cycles = run(broker).cycles
    # A closed loop would wait here for ever: the first answer comes only when the last request is out.
    assert max(cycle.sent_ns or 0 for cycle in cycles) < min(cycle.received_ns or 0 for cycle in cycles)


def test_answers_are_matched_by_sequence_in_whatever_order_they_come(broker: RunningBroker, respond: Respond) -> None:
    held: list[Request] = []

    def reverse(request: Request) -> Iterator[Answer]:
        held.append(request)
        if request.sequence == TOTAL - 1:
            yield from (answer_to(each) for each in reversed(held))

    respond(reverse)
    cycles = run(broker).cycles
    assert [cycle.r_us for cycle in cycles] == [1000 + sequence for sequence in range(TOTAL)]
    received = [cycle.received_ns or 0 for cycle in cycles]
    assert received == sorted(received, reverse=True)


def test_a_missing_answer_is_lost_and_the_others_are_not(broker: RunningBroker, respond: Respond) -> None:
    respond(lambda request: [] if request.sequence == 3 else [answer_to(request)])
    schedule = run(broker)
    lost = [sequence for sequence, cycle in enumerate(schedule.cycles) if cycle.received_ns is None]
    assert (lost, schedule.missing) == ([3], 1)
    assert schedule.cycles[3].sent_ns is not None


def test_a_second_answer_is_a_duplicate_and_changes_nothing(broker: RunningBroker, respond: Respond) -> None:
    respond(lambda request: [answer_to(request), answer_to(request, r_us=9)] if request.sequence == 4 else
            [answer_to(request)])  # fmt: skip
    schedule = run(broker)
    assert schedule.cycles[4].r_us == 1004
    assert [(sequence, cycle.r_us) for sequence, cycle in schedule.duplicates] == [(4, 9)]
    assert len(schedule.rows()) == TOTAL
    (row,) = schedule.duplicate_rows()
    assert (row[0], row[4], row[7]) == (4, 9, True)


def test_a_second_answer_after_the_last_cycle_is_still_heard(broker: RunningBroker, respond: Respond) -> None:
    respond(lambda request: [answer_to(request)] * (2 if request.sequence == TOTAL - 1 else 1))
    assert [sequence for sequence, _ in run(broker).duplicates] == [TOTAL - 1]


def test_answers_that_are_not_ours_are_counted_and_kept_out(broker: RunningBroker, respond: Respond) -> None:
    def strangers(request: Request) -> Iterator[Answer]:
        yield answer_to(request, repetition=2, r_us=9)
        yield answer_to(request, run="ffffffff", r_us=9)
        yield answer_to(request, sequence=TOTAL, r_us=9)
        yield answer_to(request)

    respond(strangers)
    schedule = run(broker)
    assert schedule.foreign == 3 * TOTAL
    assert [cycle.r_us for cycle in schedule.cycles] == [1000 + sequence for sequence in range(TOTAL)]


def test_an_answer_before_its_question_is_not_ours() -> None:
    schedule = Schedule(JOB)
    schedule.receive(answer_to(Request(JOB.run, JOB.repetition, 0, 0)), 0, time.monotonic_ns())
    assert (schedule.foreign, schedule.missing) == (1, TOTAL)


def test_an_error_of_the_board_keeps_its_reason(broker: RunningBroker, respond: Respond) -> None:
    respond(lambda request: [answer_to(request, outcome="board-timeout" if request.sequence == 2 else "ok")])
    outcomes = [cycle.outcome for cycle in run(broker).cycles]
    assert outcomes == ["ok"] * 2 + ["board-timeout"] + ["ok"] * 7


def test_rows_so_far_end_before_the_first_open_cycle(broker: RunningBroker, respond: Respond) -> None:
    respond(lambda request: [] if request.sequence == 3 else [answer_to(request)])
    schedule = run(broker)
    assert [row[0] for row in schedule.rows(answered_only=True)] == [0, 1, 2]
    assert [row[0] for row in schedule.rows(3)] == list(range(3, TOTAL))


def test_idle_can_cut_a_repetition_short(broker: RunningBroker) -> None:
    loop = Loop(broker.port, JOB)
    assert not loop.run(idle=lambda _until_ns: loop.schedule.next_sequence < 4)
    sent = loop.schedule.next_sequence
    assert sent >= 4
    assert [cycle.sent_ns is not None for cycle in loop.schedule.cycles] == [True] * sent + [False] * (TOTAL - sent)


def test_a_broker_that_dies_ends_the_repetition_with_the_rows_so_far(broker: RunningBroker, respond: Respond) -> None:
    respond(lambda request: [answer_to(request)])
    loop = Loop(broker.port, replace(JOB, messages=100_000))

    def die_after_five_answers(_until_ns: int) -> bool:
        if loop.schedule.missing <= len(loop.schedule.cycles) - 5:
            broker.kill()
        return True

    with pytest.raises(ConnectionLostError):
        loop.run(idle=die_after_five_answers)
    cycles = loop.schedule.cycles
    assert sum(cycle.received_ns is not None for cycle in cycles) >= 5
    assert cycles[-1].sent_ns is None
