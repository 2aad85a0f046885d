# SPDX-License-Identifier: Apache-2.0
"""What every board does, seen by a host through a real serial port."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import serial
from boards import REPOSITORY, RunningBoard

from firmware.protocol import ErrorCode, Reply, decode_reply, encode_request

Start = Callable[..., RunningBoard]

BANNER = b"# testbed-board 1\n"


def ask(port: serial.Serial, request_id: int) -> Reply:
    port.write(encode_request(request_id))
    return decode_reply(port.read_until(b"\n"))


def test_a_request_gets_the_temperature_under_its_id(port: serial.Serial) -> None:
    reply = ask(port, 0x1234)
    assert reply.request_id == 0x1234
    # One count of the real ADC is 0.1 degrees.
    assert reply.temperature_centi == pytest.approx(2345, abs=15)


@pytest.mark.parametrize("celsius", [-20, 0, 85.5])
def test_the_temperature_can_be_set(board_command: list[str], start: Start, celsius: float) -> None:
    with start(*board_command, "--temperature", str(celsius)).open() as port:
        assert ask(port, 1).temperature_centi == pytest.approx(100 * celsius, abs=60)


def test_pipelined_requests_are_answered_in_order(port: serial.Serial) -> None:
    for window in range(0, 64, 8):
        asked = list(range(window, window + 8))
        port.write(b"".join(map(encode_request, asked)))
        assert [decode_reply(port.read_until(b"\n")).request_id for _ in asked] == asked


def test_the_id_wraps_around(port: serial.Serial) -> None:
    for request_id in (0xFFFE, 0xFFFF, 0x0000, 0x0001):
        assert ask(port, request_id).request_id == request_id


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"?000141\n", ErrorCode.BAD_CHECKSUM),
        (b"?0001\n", ErrorCode.BAD_FRAME),
        (b"\xff\x00?=!\n", ErrorCode.BAD_FRAME),
        (b"?000140?000249\n", ErrorCode.TOO_LONG),
        (b"x" * 300 + b"\n", ErrorCode.TOO_LONG),
    ],
)
def test_a_bad_line_gets_an_error_and_the_next_line_an_answer(
    port: serial.Serial, line: bytes, error: ErrorCode
) -> None:
    port.write(line)
    assert decode_reply(port.read_until(b"\n")) == Reply(None, None, error)
    assert ask(port, 7).request_id == 7


def test_a_newline_flushes_a_half_received_line(port: serial.Serial) -> None:
    port.write(b"?00")
    port.write(b"\n")
    assert decode_reply(port.read_until(b"\n")).error is ErrorCode.BAD_FRAME
    assert ask(port, 8).request_id == 8


def test_an_empty_line_is_ignored(port: serial.Serial) -> None:
    port.write(b"\n\n\n")
    assert ask(port, 9).request_id == 9


def test_a_request_may_arrive_in_pieces(port: serial.Serial) -> None:
    for byte in encode_request(0xABCD):
        port.write(bytes([byte]))
        port.flush()
    assert decode_reply(port.read_until(b"\n")).request_id == 0xABCD


def test_the_port_can_be_closed_and_opened_again(board_command: list[str], start: Start) -> None:
    board = start(*board_command)
    for request_id in range(5):
        with board.open() as port:
            assert ask(port, request_id).request_id == request_id


def test_a_host_that_leaves_before_the_answer_does_not_spoil_the_next(board_command: list[str], start: Start) -> None:
    board = start(*board_command)
    with board.open() as port:
        port.write(encode_request(1) + b"?00")
    with board.open() as port:
        port.write(b"\n")
        # Depending on when the host came back it hears the old answers too; never a wrong one.
        while (reply := ask(port, 2)).request_id != 2:
            assert reply in (Reply(1, reply.temperature_centi, None), Reply(None, None, ErrorCode.BAD_FRAME))


def test_opening_the_port_resets_a_board_told_to_do_so(board_command: list[str], start: Start) -> None:
    board = start(*board_command, "--reset-on-open")
    for request_id in (1, 2):
        with board.open() as port:
            # The bootloader swallows this one: the first thing to be heard is the banner.
            port.write(encode_request(0xDEAD))
            assert port.read_until(b"\n") == BANNER
            assert ask(port, request_id).request_id == request_id


def test_a_board_is_reset_by_a_signal_as_by_its_button(board_command: list[str], start: Start) -> None:
    board = start(*board_command)
    with board.open() as port:
        assert ask(port, 1).request_id == 1
        board.process.send_signal(signal.SIGHUP)
        assert port.read_until(b"\n") == BANNER
        assert ask(port, 2).request_id == 2


def test_a_board_babbles_when_told_to_and_spoils_the_reply_that_comes_next(
    board_command: list[str], start: Start
) -> None:
    board = start(*board_command)
    with board.open() as port:
        assert ask(port, 1).request_id == 1
        board.process.send_signal(signal.SIGUSR2)
        for _ in range(8):
            with pytest.raises(ValueError, match=r"."):
                decode_reply(port.read_until(b"\n"))
        port.write(encode_request(2))
        spoiled = port.read_until(b"\n")
        assert spoiled.startswith(b"=00=0002")
        with pytest.raises(ValueError, match=r"."):
            decode_reply(spoiled)
        assert ask(port, 3).request_id == 3


def test_a_host_that_sets_no_terminal_options_is_understood(board_command: list[str], start: Start) -> None:
    board = start(*board_command)
    with Path(board.path).open("r+b", buffering=0) as port:
        port.write(encode_request(3))
        assert decode_reply(port.readline()).request_id == 3


def test_another_user_may_open_the_port(board_command: list[str], start: Start) -> None:
    board = start(*board_command)
    mode = subprocess.run(["stat", "--format", "%a", board.path], check=True, capture_output=True, text=True).stdout
    assert mode.strip() == "666"


def test_a_board_counts_its_bytes_and_ends_cleanly(board_command: list[str], start: Start) -> None:
    board = start(*board_command)
    with board.open() as port:
        ask(port, 1)
        assert board.process.stderr is not None
        board.process.send_signal(signal.SIGUSR1)
        on_the_way = json.loads(board.process.stderr.readline())
    status, stderr = board.stop()
    assert status == 0
    stats = json.loads(stderr)
    assert (stats["bytes_in"], stats["bytes_out"]) == (on_the_way["bytes_in"], on_the_way["bytes_out"]) == (8, 14)
    assert 0 <= stats["lateness_us"]["p50"] <= stats["lateness_us"]["p99"] <= stats["lateness_us"]["max"]
    assert stats["cpu_s"] > 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--temperature", "900"], "900"),
        (["--temperature", "warm"], "warm"),
        (["--ptmx", "/nowhere/ptmx"], "/nowhere/ptmx"),
        (["--fifo", "1000"], "1000"),
    ],
)
def test_a_wrong_option_stops_the_board_and_is_named(
    board_command: list[str], arguments: list[str], complaint: str
) -> None:
    done = subprocess.run(
        [*board_command, *arguments], check=False, capture_output=True, text=True, cwd=REPOSITORY, timeout=20
    )
    assert done.returncode != 0
    assert complaint in done.stderr
