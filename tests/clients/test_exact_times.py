# SPDX-License-Identifier: Apache-2.0
"""T and lateness to the nanosecond, on a clock that passes only where a test says so."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from stand import answer_to
from virtual import MS, US, Clock, Delivery, Published, Transport

from clients import control_loop
from clients.connection import ConnectionLostError
from clients.control_loop import ControlLoop
from clients.schedule import LEAD_NS, LINGER_NS, Job
from clients.way import Way
from clients.wire import PI_TOPIC, Answer, Request, answer_topic

JOB = Job(run="0123abcd", repetition=1, interval_ms=20, messages=8, warmup=2, qos=0, qos_answer=0, timeout_ms=100)
TOTAL = 10
ROUND_TRIP_NS = 5 * MS

Network = Callable[[Request], Iterable[int]]
"""How many ns after it was handed over a request is answered, once, never, or several times."""


class Loop:
    """A control loop in virtual time, run once: its events, its rows, and when it ended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = Clock().governs(monkeypatch, "clients.control_loop", "clients.schedule")
        self.transport = Transport(self.clock, self._answer, retained={PI_TOPIC: b"{}"})
        self.network: Network = lambda _request: [ROUND_TRIP_NS]
        self.changes: Callable[[Request], dict[str, Any]] = lambda _request: {}
        self.events: list[dict[str, Any]] = []
        self.collecting: list[bool] = []
        monkeypatch.setattr(control_loop, "Connection", self._connection)

    def run(self, job: Job = JOB) -> list[list[Any]]:
        """Its rows: sequence, intended_ns, sent_ns, received_ns, r_us, …"""
        ControlLoop(Way("127.0.0.1", 1), lambda **event: self.events.append(event)).run(job, patience_s=1)
        return [row for event in self.events if event["event"] == "samples" for row in event["rows"]]

    @property
    def asked(self) -> list[Published]:
        """The requests of the repetition, without the probes that come before it."""
        return [each for each in self.transport.published if Request.decode(each.payload).repetition]

    def _connection(self, _way: Way, *, client_id: str, on_message: Any) -> Transport:
        if not client_id.startswith("stranger"):
            self.transport.on_message = on_message
        return self.transport

    def _answer(self, published: Published) -> Iterable[Delivery]:
        request = Request.decode(published.payload)
        if not request.repetition:
            return [(0, answer_topic(request.run), answer_to(request).encode())]
        self.collecting.append(gc.isenabled())
        answer = answer_to(request, **self.changes(request)).encode()
        return [(after_ns, answer_topic(request.run), answer) for after_ns in self.network(request)]


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    """Answers each request after ROUND_TRIP_NS, unless a test says otherwise."""
    return Loop(monkeypatch)


def test_requests_leave_at_their_times_and_t_is_what_the_round_trip_took(loop: Loop) -> None:
    rows = loop.run()
    first_ns = rows[0][1]
    assert [row[1] for row in rows] == [first_ns + sequence * 20 * MS for sequence in range(TOTAL)]
    assert [row[2] for row in rows] == [each.t_ns for each in loop.asked] == [row[1] for row in rows]
    assert [row[3] - row[2] for row in rows] == [ROUND_TRIP_NS] * TOTAL


def test_the_first_request_comes_a_lead_after_the_repetition_began(loop: Loop) -> None:
    began_ns = loop.clock.now_ns
    assert loop.run()[0][1] == began_ns + LEAD_NS


def test_t_begins_before_the_message_is_handed_over_not_after(loop: Loop) -> None:
    loop.transport.publish_ns = 300 * US
    rows = loop.run()
    assert [row[2] - row[1] for row in rows] == [0] * TOTAL
    assert [row[3] - row[2] for row in rows] == [ROUND_TRIP_NS] * TOTAL


def test_t_ends_when_the_answer_is_here_not_when_it_has_been_read(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    loop.clock.costs(monkeypatch, Answer, "decode", 400 * US)
    assert [row[3] - row[2] for row in loop.run()] == [ROUND_TRIP_NS] * TOTAL


def test_a_wake_up_that_comes_late_is_lateness_not_latency_and_moves_no_request_behind_it(loop: Loop) -> None:
    loop.transport.wakes_late_ns = 700 * US
    rows = loop.run()
    assert [row[2] - row[1] for row in rows] == [700 * US] * TOTAL
    assert [row[3] - row[2] for row in rows] == [ROUND_TRIP_NS] * TOTAL
    assert rows[-1][1] - rows[0][1] == (TOTAL - 1) * 20 * MS


def test_answers_later_than_the_interval_hold_up_no_request(loop: Loop) -> None:
    loop.network = lambda _request: [90 * MS]
    rows = loop.run()
    assert [row[2] - row[1] for row in rows] == [0] * TOTAL
    assert [row[3] - row[2] for row in rows] == [90 * MS] * TOTAL


def test_a_request_without_an_answer_is_waited_for_twice_the_timeout(loop: Loop) -> None:
    loop.network = lambda request: [] if request.sequence == TOTAL - 1 else [ROUND_TRIP_NS]
    last = loop.run()[-1]
    assert last[3] is None
    assert loop.clock.now_ns == last[2] + 2 * JOB.timeout_ms * MS + LINGER_NS


@pytest.mark.parametrize(("after_ms", "heard"), [(199, True), (201 + LINGER_NS // MS, False)])
def test_an_answer_after_the_timeout_is_late_and_one_after_twice_the_timeout_lost(
    loop: Loop, after_ms: int, heard: bool
) -> None:
    loop.network = lambda request: [after_ms * MS if request.sequence == TOTAL - 1 else ROUND_TRIP_NS]
    assert (loop.run()[-1][3] is not None) == heard


def test_after_the_last_answer_it_listens_on_for_a_second_one(loop: Loop) -> None:
    loop.network = lambda request: [ROUND_TRIP_NS, ROUND_TRIP_NS + LINGER_NS][: 1 + (request.sequence == TOTAL - 1)]
    *rows, again = loop.run()
    assert (again[0], again[7]) == (TOTAL - 1, True)
    assert loop.clock.now_ns == rows[-1][3] + LINGER_NS == again[3]


def test_no_garbage_is_collected_while_cycles_are_under_way_and_it_is_again_afterwards(loop: Loop) -> None:
    loop.run()
    assert loop.collecting == [False] * TOTAL
    assert gc.isenabled()


def test_a_repetition_that_breaks_leaves_the_garbage_collected(loop: Loop) -> None:
    def break_(_request: Request) -> list[int]:
        raise KeyboardInterrupt

    loop.network = break_
    with pytest.raises(KeyboardInterrupt):
        loop.run()
    assert gc.isenabled()


def test_a_broker_that_goes_for_good_is_waited_for_until_the_schedule_ends_and_told_with_its_times(loop: Loop) -> None:
    loop.transport.gone_ns = gone_ns = loop.clock.now_ns + LEAD_NS + 50 * MS
    rows = loop.run()
    done = loop.events[-1]
    (reconnection,) = done["reconnections"]
    assert (done["complete"], reconnection["lost_ns"], reconnection["back_ns"]) == (False, gone_ns + 10 * MS, None)
    assert done["connection_lost"] == "the broker closed the connection; the broker did not come back"
    assert [row[2] is not None for row in rows] == [True] * 3 + [False] * 7
    assert loop.clock.now_ns == pytest.approx(rows[-1][1] + 2 * JOB.timeout_ms * MS, abs=US)


@pytest.mark.parametrize(("back_ms", "unsent"), [(125, [3, 4, 5, 6]), (100, [3, 4, 5])])
def test_what_was_due_while_the_broker_was_gone_is_never_sent_nor_waited_for(
    loop: Loop, back_ms: int, unsent: list[int]
) -> None:
    """Gone 50 ms after the first request; back between two cycles, or at the very moment at which cycle 5 is due."""
    began_ns = loop.clock.now_ns + LEAD_NS
    loop.transport.gone_ns, loop.transport.back_ns = began_ns + 50 * MS, began_ns + back_ms * MS
    rows = loop.run()
    assert [row[0] for row in rows if row[2] is None] == unsent
    (reconnection,) = loop.events[-1]["reconnections"]
    assert reconnection["back_ns"] == began_ns + back_ms * MS
    assert {row[2] - row[1] for row in rows[7:]} == {0}
    assert loop.clock.now_ns == rows[-1][3] + LINGER_NS


def test_the_boards_repeats_are_those_of_this_repetition(loop: Loop) -> None:
    loop.changes = lambda request: {"repeats": 7 + request.sequence // 4}
    loop.run()
    assert loop.events[-1]["board_repeats"] == 2


def test_without_any_answer_the_board_repeated_nothing(loop: Loop) -> None:
    loop.network = lambda _request: []
    rows = loop.run()
    assert loop.events[-1]["board_repeats"] == 0
    assert [row[7] for row in rows] == [False] * TOTAL


def test_a_row_says_whose_board_answered_and_a_second_answer_which_request_it_belongs_to(loop: Loop) -> None:
    loop.changes = lambda _request: {"board": "simavr", "qos_request": 1}
    loop.network = lambda request: [ROUND_TRIP_NS, 2 * ROUND_TRIP_NS][: 1 + (request.sequence == 3)]
    *rows, again = loop.run()
    assert {row[6] for row in rows} == {"simavr"}
    assert again[:4] == [*rows[3][:3], rows[3][2] + 2 * ROUND_TRIP_NS]
    assert loop.events[-1]["qos_seen"] == [(1, 0)]


def test_rows_so_far_are_told_every_second_and_each_once(loop: Loop) -> None:
    rows = loop.run(replace(JOB, messages=198))
    told = [len(event["rows"]) for event in loop.events if event["event"] == "samples"]
    assert told == [50, 50, 50, 50, 0]
    assert [row[0] for row in rows] == list(range(200))


def test_what_the_pi_left_is_asked_for_again_where_the_broker_stored_it_late(loop: Loop) -> None:
    loop.transport.retained.clear()
    subscribe, asked = loop.transport.subscribe, []

    def subscribed(topic: str, qos: int, *, timeout_s: float) -> int:
        asked.append(topic)
        if asked.count(PI_TOPIC) == 3:
            loop.transport.retained[PI_TOPIC] = b'{"user": null, "tls": null}'
        return subscribe(topic, qos, timeout_s=timeout_s)

    loop.transport.subscribe = subscribed  # type: ignore[method-assign]
    loop.run()
    (ready,) = (event for event in loop.events if event["event"] == "ready")
    assert (ready["protection"]["pi"], asked.count(PI_TOPIC)) == ({"user": None, "tls": None}, 3)


def test_a_pi_that_left_nothing_is_told_as_such_soon(loop: Loop) -> None:
    loop.transport.retained.clear()
    began_ns = loop.clock.now_ns
    rows = loop.run()
    (ready,) = (event for event in loop.events if event["event"] == "ready")
    assert ready["protection"]["pi"] is None
    assert rows[0][1] - began_ns < 1_000_000_000


def test_a_broker_that_drops_the_first_connections_is_still_starting(loop: Loop) -> None:
    subscribe = loop.transport.subscribe
    dropped: list[str] = []

    def subscribed(topic: str, qos: int, *, timeout_s: float) -> int:
        if len(dropped) < 2:
            dropped.append(topic)
            raise ConnectionLostError("The connection was lost.")
        return subscribe(topic, qos, timeout_s=timeout_s)

    loop.transport.subscribe = subscribed  # type: ignore[method-assign]
    assert len(loop.run()) == TOTAL
    assert len(dropped) == 2
