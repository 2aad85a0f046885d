# SPDX-License-Identifier: Apache-2.0
"""R to the microsecond, on a clock that passes only where a test says so."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from stand import ScriptedPort, reply
from virtual import MS, US, Clock, Published, Transport

from clients.connection import ConnectionLostError
from clients.way import Way
from clients.wire import Answer, Request, answer_topic, request_topic
from rpi.board import TIMEOUT_NS, Board, NoBoard, Question, SerialBoard
from rpi.bridge import Bridge

RUN = "0123abcd"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock().governs(monkeypatch, "rpi.bridge", "rpi.board")


class Slow(NoBoard):
    """Closes each question `takes_ns` after its turn has come, one at a time."""

    def __init__(self, clock: Clock, takes_ns: int) -> None:
        super().__init__()
        self._clock, self._takes_ns = clock, takes_ns
        self._open: list[Question] = []
        self._free_ns = 0

    def ask(self, question: Question) -> None:
        self._open.append(question)
        if len(self._open) == 1:
            self._free_ns = self._clock.now_ns + self._takes_ns

    def wake_ns(self) -> int | None:
        return self._free_ns if self._open else None

    def tick(self) -> None:
        if self._open and self._clock.now_ns >= self._free_ns:
            self.done.append(self._open.pop(0).answered("ok", 42))
            self._free_ns = self._clock.now_ns + self._takes_ns


def requests_at(transport: Transport, *at_ns: int) -> None:
    for sequence, t_ns in enumerate(at_ns):
        transport.deliver(t_ns, request_topic(RUN, 0), Request(RUN, 1, sequence, 0).encode())


def relay(transport: Transport, board: Board) -> list[Answer]:
    """What a bridge publishes until its broker is gone."""
    bridge = Bridge(Way("127.0.0.1", 1), board, "none")
    transport.on_message = bridge._on_message
    with pytest.raises(ConnectionLostError):
        bridge._relay(transport)  # type: ignore[arg-type]
    return [Answer.decode(each.payload) for each in transport.published]


def silence(_published: Published) -> Iterator[tuple[int, str, bytes]]:
    return iter(())


def test_r_is_what_the_board_took(clock: Clock) -> None:
    began_ns = clock.now_ns
    transport = Transport(clock, silence, gone_ns=began_ns + 100 * MS)
    requests_at(transport, began_ns + 1 * MS, began_ns + 21 * MS)
    answers = relay(transport, Slow(clock, 4_300 * US))
    assert [answer.r_us for answer in answers] == [4300, 4300]
    assert [each.t_ns - began_ns for each in transport.published] == [5_300 * US, 25_300 * US]


def test_r_counts_the_wait_for_the_boards_turn(clock: Clock) -> None:
    began_ns = clock.now_ns
    transport = Transport(clock, silence, gone_ns=began_ns + 100 * MS)
    requests_at(transport, *[began_ns + 1 * MS] * 3)
    answers = relay(transport, Slow(clock, 4 * MS))
    assert [answer.r_us for answer in answers] == [4000, 8000, 12_000]


def test_r_begins_when_the_request_is_here_not_when_it_has_been_read(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock.costs(monkeypatch, Request, "decode", 200 * US)
    began_ns = clock.now_ns
    transport = Transport(clock, silence, gone_ns=began_ns + 100 * MS)
    requests_at(transport, began_ns + 1 * MS)
    assert [answer.r_us for answer in relay(transport, NoBoard())] == [200]


def test_r_ends_with_the_boards_reply_not_with_the_answer_to_the_broker(clock: Clock) -> None:
    class Both(Slow):
        def tick(self) -> None:
            if len(self._open) == 2:
                self.done.extend(self._open.pop(0).answered("ok") for _ in range(2))

    began_ns = clock.now_ns
    transport = Transport(clock, silence, publish_ns=300 * US, gone_ns=began_ns + 100 * MS)
    requests_at(transport, *[began_ns + 1 * MS] * 2)
    answers = relay(transport, Both(clock, 0))
    assert [answer.r_us for answer in answers] == [0, 0]
    assert transport.published[1].t_ns - transport.published[0].t_ns == 300 * US


def test_an_answer_goes_to_its_run_at_the_qos_it_asked_for_with_what_the_board_repeated(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    class Repeating(NoBoard):
        def statistics(self) -> dict[str, int]:
            return {"repeats": 3}

    began_ns = clock.now_ns
    transport = Transport(clock, silence, gone_ns=began_ns + 2500 * MS)
    for sequence, qos_answer in enumerate((2, 1)):
        request = Request("feedbeef", 1, sequence, qos_answer).encode()
        transport.deliver(began_ns + sequence * MS, request_topic("feedbeef", 1), request, 1)
    for _ in range(3):
        transport.deliver(began_ns + 3 * MS, request_topic(RUN, 0), b"nonsense")
    answers = relay(transport, Repeating())
    assert [(each.topic, each.qos) for each in transport.published] == [
        (answer_topic("feedbeef"), qos) for qos in (2, 1)
    ]
    assert [(answer.repeats, answer.qos_request) for answer in answers] == [(3, 1), (3, 1)]
    assert capsys.readouterr().err == "", "the board's counts did not change"


def test_the_bridge_says_within_a_second_what_went_wrong_at_its_board(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    class Failing(NoBoard):
        def __init__(self) -> None:
            super().__init__()
            self.errors = 0

        def ask(self, question: Question) -> None:
            self.errors += 1
            super().ask(question)

        def statistics(self) -> dict[str, int]:
            return {"errors": self.errors}

    began_ns = clock.now_ns
    transport = Transport(clock, silence, gone_ns=began_ns + 5000 * MS)
    requests_at(transport, began_ns + 1 * MS, began_ns + 2 * MS, began_ns + 2500 * MS)
    transport.deliver(began_ns + 3 * MS, request_topic(RUN, 0), b"nonsense")
    transport.deliver(began_ns + 4 * MS, request_topic(RUN, 0), b"nonsense")
    relay(transport, Failing())
    told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(each["event"], each["answers"], each["malformed"], each["board"]) for each in told] == [
        ("board", 2, 2, {"errors": 2}), ("board", 3, 2, {"errors": 3}),
    ]  # fmt: skip
    assert [each["t_ns"] - began_ns for each in told] == [1000 * MS, 3000 * MS]


def test_a_bridge_that_cannot_answer_has_lost_its_broker(clock: Clock) -> None:
    class Refusing(Transport):
        def publish(self, topic: str, payload: bytes, qos: int, *, retain: bool = False) -> bool:
            super().publish(topic, payload, qos, retain=retain)
            return False

    transport = Refusing(clock, silence, gone_ns=clock.now_ns + 100 * MS)
    requests_at(transport, clock.now_ns, clock.now_ns)
    assert len(relay(transport, NoBoard())) == 1


def test_a_serial_boards_r_ends_when_its_reply_is_complete(clock: Clock, port: ScriptedPort) -> None:
    board = SerialBoard(str(port.path))
    board.ask(Question(Request(RUN, 1, 0, 0), clock.now_ns, 0))
    said = reply(port.hear_id(), 42)
    clock.now_ns += 4 * MS
    port.say(said[:5])
    board.read()
    assert not board.done
    clock.now_ns += 300 * US
    port.say(said[5:])
    board.read()
    clock.now_ns += 9 * MS
    (question,) = board.done
    assert question.r2_ns - question.r1_ns == 4_300 * US


def test_a_silent_board_is_given_up_on_after_its_timeout_and_not_before(clock: Clock, port: ScriptedPort) -> None:
    board = SerialBoard(str(port.path))
    asked_ns = clock.now_ns
    board.ask(Question(Request(RUN, 1, 0, 0), asked_ns, 0))
    assert board.wake_ns() == asked_ns + TIMEOUT_NS
    clock.now_ns = asked_ns + TIMEOUT_NS - 1
    board.tick()
    assert not board.done
    clock.now_ns += 1
    board.tick()
    assert [question.outcome for question in board.done] == ["board-timeout"]
