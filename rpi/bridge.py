# SPDX-License-Identifier: Apache-2.0
"""The bridge's loop: a request from the broker becomes a question to the board, its reply the answer, with R.

R runs from the moment the request reaches the Pi (`r1_ns`) until the board's reply is complete (`r2_ns`), both on
the Pi's own CLOCK_MONOTONIC; no clock of another machine is ever involved.
"""

from __future__ import annotations

import json
import sys
import time

from paho.mqtt.client import MQTTMessage

from clients.connection import Connection, ConnectionLostError, attempt_timeouts_s
from clients.way import Way
from clients.wire import PI_TOPIC, Answer, Request, WireError, answer_topic, request_topic
from rpi.board import Board, Question

_KEEP_ALIVE_NS = 1_000_000_000


class Bridge:
    """Answers every run's requests, through broker restarts and board failures, until it is stopped."""

    def __init__(self, way: Way, board: Board, board_name: str) -> None:
        self._way = way
        self._board = board
        self._board_name = board_name
        self._malformed = 0
        self._answers = 0

    def serve(self) -> None:
        """Relay for ever; a lost broker is reconnected, quickly at first."""
        connection = self._connection()
        while True:
            if not self._way.persistent:
                connection = self._connection()
            self._open(connection)
            try:
                protection = connection.protection()
                connection.publish(PI_TOPIC, json.dumps(protection).encode(), 1, retain=True)
                granted = [connection.subscribe(request_topic("+", qos), qos, timeout_s=5.0) for qos in (0, 1, 2)]
                self._log("connected", granted_qos=granted, protection=protection)
                self._relay(connection)
            except OSError as error:
                self._log("disconnected", reason=str(error))
                self._board.forget()

    def _connection(self) -> Connection:
        return Connection(self._way, client_id="pi", on_message=self._on_message)

    def _open(self, connection: Connection) -> None:
        for timeout_s in attempt_timeouts_s():
            try:
                connection.open(timeout_s=timeout_s)
            except OSError:
                time.sleep(timeout_s / 5)  # refused at once: the broker is starting
            else:
                return

    def _relay(self, connection: Connection) -> None:
        board = self._board
        counted = board.statistics()
        keep_alive_ns = time.monotonic_ns() + _KEEP_ALIVE_NS
        while True:
            wake_ns = board.wake_ns() or keep_alive_ns
            if connection.wait(min(wake_ns, keep_alive_ns), board.descriptors()):
                board.read()
            board.tick()
            while board.done:
                self._answer(connection, board.done.popleft())
            if time.monotonic_ns() >= keep_alive_ns:
                connection.keep_alive()
                if board.statistics() != counted:
                    counted = board.statistics()
                    self._log("board")
                keep_alive_ns = time.monotonic_ns() + _KEEP_ALIVE_NS

    def _on_message(self, message: MQTTMessage) -> None:
        r1_ns = time.monotonic_ns()  # R starts here.
        try:
            request = Request.decode(bytes(message.payload))
        except WireError:
            self._malformed += 1
            return
        self._board.ask(Question(request, r1_ns, message.qos))

    def _answer(self, connection: Connection, question: Question) -> None:
        request = question.request
        r_us = round((question.r2_ns - question.r1_ns) / 1000)
        answer = Answer(
            request.run, request.repetition, request.sequence, r_us,
            question.outcome, self._board_name, question.temperature_centi,
            question.qos_request, self._board.statistics().get("repeats", 0),
        )  # fmt: skip
        if not connection.publish(answer_topic(request.run), answer.encode(), request.qos_answer):
            raise ConnectionLostError("not connected")
        self._answers += 1

    def _log(self, event: str, **facts: object) -> None:
        """Write one JSON line, with the counts so far."""
        counts = {"answers": self._answers, "malformed": self._malformed, "board": self._board.statistics()}
        print(json.dumps({"event": event, "t_ns": time.monotonic_ns(), **facts, **counts}), file=sys.stderr, flush=True)
