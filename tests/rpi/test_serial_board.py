# SPDX-License-Identifier: Apache-2.0
"""The bridge's side of the serial port against a board that a test plays, on a real pseudo-terminal."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stand import PATIENCE_S, ScriptedPort, eventually, reply

import rpi.board
from clients.wire import Request
from firmware import protocol
from rpi.board import QUEUE, NoBoard, Question, SerialBoard

BANNER = b"# testbed-board 1\n"


@pytest.fixture(autouse=True)
def _nothing_hangs() -> Iterator[None]:
    """The bridge has one thread: whatever blocks it blocks everything."""

    def hung(*_: object) -> None:
        raise AssertionError("the bridge's thread hangs")

    previous = signal.signal(signal.SIGALRM, hung)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, previous)


def question(sequence: int = 0) -> Question:
    return Question(Request("0123abcd", 1, sequence, 0), time.monotonic_ns(), 0)


def error(request_id: int | None, code: int = 4) -> bytes:
    text = b"!%s%02d" % (b"----" if request_id is None else b"%04X" % request_id, code)
    return b"%s%02X\n" % (text, protocol.crc8(text))


def work(board: SerialBoard) -> bool:
    """One turn of the bridge's loop; whether the port is open after it."""
    wake_ns = board.wake_ns()
    until_ns = time.monotonic_ns() + int(PATIENCE_S * 1e9) if wake_ns is None else wake_ns
    if select.select(board.descriptors(), [], [], max(0, until_ns - time.monotonic_ns()) / 1e9)[0]:
        board.read()
    board.tick()
    return bool(board.descriptors())


def closed(board: SerialBoard, count: int = 1) -> list[tuple[int, str, int]]:
    """Work until so many questions are closed: sequence, outcome and temperature of each."""
    eventually(lambda: len(board.done) >= count or (work(board) and False), f"{count} closed questions")
    done = [board.done.popleft() for _ in range(count)]
    assert not board.done
    assert all(each.r2_ns >= each.r1_ns for each in done)
    return [(each.request.sequence, each.outcome, each.temperature_centi) for each in done]


def next_works(board: SerialBoard, port: ScriptedPort) -> bool:
    """Whether a further question gets its answer, whatever came before."""
    board.ask(question(99))
    port.say(reply(port.hear_id(), 4242))
    return closed(board) == [(99, "ok", 4242)]


@pytest.fixture
def board(port: ScriptedPort) -> SerialBoard:
    """An open port."""
    opened = SerialBoard(str(port.path))
    assert port.hear() == b"\n"  # ends whatever half a line the board holds
    return opened


def test_a_question_is_put_at_once_and_closed_by_its_reply(board: SerialBoard, port: ScriptedPort) -> None:
    board.ask(question(7))
    request_id = port.hear_id()
    assert not board.done
    port.say(reply(request_id, -512))
    assert closed(board) == [(7, "ok", -512)]


def test_questions_wait_for_their_turn_and_get_ids_of_their_own(board: SerialBoard, port: ScriptedPort) -> None:
    for sequence in range(3):
        board.ask(question(sequence))
    ids = set()
    for sequence in range(3):
        request_id = port.hear_id()
        assert not select.select([port.master], [], [], 0)[0], "two questions at once"
        ids.add(request_id)
        port.say(reply(request_id, sequence))
        assert closed(board) == [(sequence, "ok", sequence)]
    assert len(ids) == 3


def test_a_board_that_resets_when_opened_is_silent_greets_and_then_works(
    board: SerialBoard, port: ScriptedPort
) -> None:
    board.ask(question())
    assert closed(board) == [(0, "board-timeout", 0)]  # the bootloader swallows it
    port.hear_id()
    port.say(b"\x00\xfe")
    port.say(b"\n" + BANNER)
    assert next_works(board, port)
    assert board.statistics()["garbage_lines"] == 1


def test_what_lay_in_the_port_before_it_was_opened_is_not_read(port: ScriptedPort) -> None:
    port.say(reply(1, 666))
    board = SerialBoard(str(port.path))
    board.ask(question())
    port.say(reply(port.hear_id(), 1))
    assert closed(board) == [(0, "ok", 1)]
    assert (board.statistics()["late_replies"], board.statistics()["repeats"]) == (0, 0)


@pytest.mark.parametrize(
    "babble",
    [
        b"garbage\n", b"=0001+02345\n", b"=0001+0234500\n", b"\xff" * 500 + b"\n", b"\n\n\n", BANNER, b"!\n",
        b"x" * 5000 + b"\n",
    ],
)  # fmt: skip
def test_garbage_before_a_reply_is_passed_over(board: SerialBoard, port: ScriptedPort, babble: bytes) -> None:
    board.ask(question())
    request_id = port.hear_id()
    for start in range(0, len(babble), 1000):
        port.say(babble[start : start + 1000])
        board.read()
    port.say(reply(request_id, 2345))
    assert closed(board) == [(0, "ok", 2345)]


def test_a_reply_to_an_older_question_closes_nothing(board: SerialBoard, port: ScriptedPort) -> None:
    board.ask(question(0))
    old = port.hear_id()
    assert closed(board) == [(0, "board-timeout", 0)]
    board.ask(question(1))
    fresh = port.hear_id()
    port.say(reply(old, 1111))
    port.say(reply(fresh, 2222))
    assert closed(board) == [(1, "ok", 2222)]
    assert board.statistics()["late_replies"] == 1


def test_an_error_with_the_questions_id_closes_it(board: SerialBoard, port: ScriptedPort) -> None:
    board.ask(question())
    port.say(error(port.hear_id()))
    assert closed(board) == [(0, "board-error", 0)]
    assert next_works(board, port)


def test_an_error_without_an_id_is_laid_at_no_questions_door(board: SerialBoard, port: ScriptedPort) -> None:
    board.ask(question())
    request_id = port.hear_id()
    port.say(error(None))
    port.say(reply(request_id, 5))
    assert closed(board) == [(0, "ok", 5)]


def test_a_missing_reply_times_out_and_the_next_question_works(board: SerialBoard, port: ScriptedPort) -> None:
    board.ask(question())
    port.hear_id()
    assert closed(board) == [(0, "board-timeout", 0)]
    assert board.statistics()["timeouts"] == 1
    assert next_works(board, port)


def test_a_second_reply_to_one_question_is_counted_and_closes_nothing(board: SerialBoard, port: ScriptedPort) -> None:
    board.ask(question(0))
    request_id = port.hear_id()
    port.say(reply(request_id, 1) + reply(request_id, 2))
    assert closed(board) == [(0, "ok", 1)]
    assert board.statistics()["repeats"] == 1
    assert next_works(board, port)


def test_everything_that_went_wrong_is_counted_by_kind(board: SerialBoard, port: ScriptedPort) -> None:
    for sequence in range(2):
        board.ask(question(sequence))
        request_id = port.hear_id()
        stale = reply((request_id - 1000) & protocol.MAX_ID, 1)
        port.say(BANNER + b"\n" + b"garbage\n" + stale + error(None) + error(request_id) + error(request_id))
        assert closed(board) == [(sequence, "board-error", 0)]
    assert board.statistics() == {
        "timeouts": 0, "errors": 4, "late_replies": 2, "repeats": 2, "garbage_lines": 2, "boots": 2,
        "plugged": 1, "unplugged": 0, "overflows": 0,
    }  # fmt: skip


def test_two_replies_in_one_read_go_to_their_own_questions(board: SerialBoard, port: ScriptedPort) -> None:
    board.ask(question(0))
    old = port.hear_id()
    closed(board)
    board.ask(question(1))
    port.say(reply(old, 1111) + reply(port.hear_id(), 2222))
    assert closed(board) == [(1, "ok", 2222)]


def test_a_reply_in_many_pieces_is_one_reply(board: SerialBoard, port: ScriptedPort) -> None:
    board.ask(question())
    for byte in reply(port.hear_id(), 2345):
        assert not board.done
        port.say(bytes([byte]))
        board.read()
    assert closed(board) == [(0, "ok", 2345)]


def test_the_id_wraps_around(board: SerialBoard, port: ScriptedPort) -> None:
    board._id = protocol.MAX_ID - 1
    for expected in (protocol.MAX_ID, 0, 1):
        board.ask(question(expected))
        assert port.hear_id() == expected
        port.say(reply(expected, 3))
        assert closed(board) == [(expected, "ok", 3)]


def test_an_unplugged_board_fails_what_is_asked_and_works_once_plugged_in_again(
    board: SerialBoard, port: ScriptedPort
) -> None:
    board.ask(question(0))
    board.ask(question(1))
    port.unplug()
    assert closed(board, 2) == [(0, "board-error", 0), (1, "board-error", 0)]
    board.ask(question(2))
    assert closed(board) == [(2, "board-error", 0)]
    assert board.statistics()["unplugged"] == 1
    port.plug()
    eventually(lambda: work(board), "an open port")
    assert next_works(board, port)


def test_a_port_that_is_not_there_yet_is_opened_when_it_comes(tmp_path: Path) -> None:
    board = SerialBoard(str(tmp_path / "tty"))
    board.ask(question())
    assert closed(board) == [(0, "board-error", 0)]
    port = ScriptedPort(tmp_path / "tty")
    eventually(lambda: work(board), "an open port")
    assert next_works(board, port)


def test_a_second_bridge_does_not_get_the_port(board: SerialBoard, port: ScriptedPort) -> None:
    assert SerialBoard(str(port.path)).descriptors() == []
    assert next_works(board, port)


def test_more_questions_than_the_queue_holds_fail_at_once(board: SerialBoard) -> None:
    for sequence in range(QUEUE + 3):  # one is at the board, QUEUE wait
        board.ask(question(sequence))
    assert [(each.request.sequence, each.outcome) for each in board.done] == [
        (QUEUE + 1, "board-error"),
        (QUEUE + 2, "board-error"),
    ]
    assert board.statistics()["overflows"] == 2


def test_a_board_that_stops_reading_does_not_hang_the_bridge(board: SerialBoard, port: ScriptedPort) -> None:
    os.set_blocking(port.slave, False)
    while select.select([], [port.slave], [], 0.1)[1]:  # what was written travels on, until nothing takes it any more
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(port.slave, b"\n" * 8)
    board.ask(question())
    assert closed(board) == [(0, "board-timeout", 0)]


def test_forgotten_questions_are_never_answered(board: SerialBoard, port: ScriptedPort) -> None:
    board.ask(question(0))
    board.ask(question(1))
    old = port.hear_id()
    board.forget()
    board.ask(question(2))
    fresh = port.hear_id()
    port.say(reply(old, 1111) + reply(fresh, 2222))
    assert closed(board) == [(2, "ok", 2222)]


def test_no_board_answers_at_once() -> None:
    board = NoBoard()
    board.ask(question(5))
    assert [(each.request.sequence, each.outcome) for each in board.done] == [(5, "ok")]
    assert (board.descriptors(), board.wake_ns(), board.statistics()) == ([], None, {})


steps = st.lists(
    st.one_of(
        st.sampled_from(["ask", "time out", "answer", "answer twice", "answer in halves", "answer the one before",
                         "answer damaged", "fail", "fail without id", "greet", "empty line"]),
        st.binary(max_size=40),
    ),
    max_size=25,
)  # fmt: skip


@settings(max_examples=150)
@given(steps, st.integers(0, 12), st.integers(0, 255))
def test_whatever_the_board_babbles_no_answer_goes_to_a_wrong_question(
    script: list[Any], place: int, damage: int
) -> None:
    """Each reply carries its own id as the temperature; a question closed as ok must carry its own."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(rpi.board, "TIMEOUT_NS", 0)  # `tick` times out what is open; nothing else does
        port = ScriptedPort(Path(folder) / "tty")
        board = SerialBoard(str(port.path))
        asked, at_the_board, id_of = 0, 0, {}
        for step in ["ask", *script, "empty line"]:
            if step == "ask":
                board.ask(question(asked))
                asked += 1
            elif step == "time out":
                board.tick()
            # Ids are given in the order in which questions reach the board.
            while select.select([port.master], [], [], 0)[0]:
                if (line := port.hear()) != b"\n":
                    id_of[at_the_board] = int(line[1:5], 16)
                    at_the_board += 1
            current, before = id_of[at_the_board - 1], id_of[max(0, at_the_board - 2)]
            whole = reply(current, current)
            said = {
                "answer": [whole], "answer twice": [whole + whole], "answer in halves": [whole[:place], whole[place:]],
                "answer the one before": [reply(before, before)],
                "answer damaged": [whole[:place] + bytes([damage]) + whole[place + 1 :]],
                "fail": [error(current)], "fail without id": [error(None)], "greet": [BANNER], "empty line": [b"\n"],
            }.get(step, [step] if isinstance(step, bytes) else [])  # fmt: skip
            for piece in filter(None, said):
                port.say(piece)
                board.read()
        for _ in range(asked):
            board.tick()
        done = list(board.done)
        assert [each.request.sequence for each in done] == list(range(asked)), "each question is closed once, in turn"
        for each in done:
            if each.outcome == "ok":
                assert each.temperature_centi == id_of[each.request.sequence]
        port.unplug()
