# SPDX-License-Identifier: Apache-2.0
"""The bridge as it runs on the Pi: a process between a real broker and a board behind a serial port."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from stand import ROOT, Client, Program, RunningBroker, ScriptedPort

from clients.way import Way
from clients.wire import Answer, Request, answer_topic, request_topic
from firmware.model import BYTE_FROM_BOARD_NS, BYTE_TO_BOARD_NS, MEASURE_NS
from firmware.protocol import encode_request
from rpi.board import NoBoard, Question
from rpi.bridge import Bridge

Start = Callable[..., Program]

RUN = "0123abcd"
WIRE_TIME_US = (len(encode_request(0)) * BYTE_TO_BOARD_NS + MEASURE_NS + 14 * BYTE_FROM_BOARD_NS) / 1000
"""No reply of the model is complete before this: its 14 bytes have to come over the wire."""


@pytest.fixture
def bridge(program: Start, broker: RunningBroker) -> Callable[..., Program]:
    """Start a bridge and wait until it is subscribed."""

    def start(*arguments: str) -> Program:
        started = program("rpi", "--broker", "127.0.0.1", "--port", str(broker.port), *arguments, events="stderr")
        assert started.event("connected")["granted_qos"] == [0, 1, 2]
        return started

    return start


@pytest.fixture
def model(program: Start) -> str:
    """The path of a model board's serial port."""
    board = program("firmware.model")
    return board.said("ready ").split()[1]


def client_of(broker: RunningBroker, qos: int = 0) -> Client:
    client = Client(broker.port)
    client.subscribe(answer_topic(RUN), qos)
    return client


def ask(client: Client, sequence: int, *, qos: int = 0, qos_answer: int = 0) -> Answer:
    """Put one question and take its answer."""
    already = len(client.messages)
    client.connection.publish(request_topic(RUN, qos), Request(RUN, 1, sequence, qos_answer).encode(), qos)
    message = client.receive(already + 1)[-1]
    assert message.qos == qos_answer
    return Answer.decode(bytes(message.payload))


def test_a_board_is_asked_and_its_answer_carries_r(
    bridge: Callable[..., Program], broker: RunningBroker, model: str
) -> None:
    bridge("--serial", model, "--board", "model")
    client = client_of(broker)
    for sequence in range(20):
        answer = ask(client, sequence)
        assert (answer.run, answer.repetition, answer.sequence) == (RUN, 1, sequence)
        assert (answer.outcome, answer.board, answer.temperature_centi) == ("ok", "model", 2345)
        assert answer.r_us > WIRE_TIME_US


def test_a_burst_of_requests_is_answered_one_for_one(
    bridge: Callable[..., Program], broker: RunningBroker, model: str
) -> None:
    bridge("--serial", model, "--board", "model")
    client = client_of(broker)
    for sequence in range(50):
        client.connection.publish(request_topic(RUN, 0), Request(RUN, 1, sequence, 0).encode(), 0)
    answers = [Answer.decode(bytes(message.payload)) for message in client.receive(50)]
    assert [answer.sequence for answer in answers] == list(range(50))
    assert {answer.outcome for answer in answers} == {"ok"}
    # R counts the wait for the board's turn, too.
    assert answers[-1].r_us > 40 * WIRE_TIME_US


@pytest.mark.parametrize("qos_answer", [0, 1, 2])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_the_answer_comes_at_the_qos_that_the_request_asks_for(
    bridge: Callable[..., Program], broker: RunningBroker, qos: int, qos_answer: int
) -> None:
    bridge("--board", "none")
    client = client_of(broker, qos_answer)
    for sequence in range(3):
        answer = ask(client, sequence, qos=qos, qos_answer=qos_answer)
        assert (answer.outcome, answer.board, answer.qos_request) == ("ok", "none", qos)


def test_the_answer_goes_to_the_run_that_asked(bridge: Callable[..., Program], broker: RunningBroker) -> None:
    bridge("--board", "none")
    client = client_of(broker)
    client.connection.publish(request_topic("ffffffff", 0), Request("ffffffff", 1, 0, 0).encode(), 0)
    client.connection.publish(request_topic("eeeeeeee", 0), Request(RUN, 1, 1, 0).encode(), 0)
    assert Answer.decode(bytes(client.receive(1)[0].payload)).sequence == 1


def test_malformed_requests_are_counted_and_otherwise_ignored(
    bridge: Callable[..., Program], broker: RunningBroker
) -> None:
    running = bridge("--board", "none")
    client = client_of(broker)
    for payload in (b"", b"\xff", b"1 0123abcd 1 0 3", b"1 0123abcd 1 0 0 0"):
        client.connection.publish(request_topic(RUN, 0), payload, 0)
    assert ask(client, 5).sequence == 5
    assert len(client.messages) == 1
    broker.kill()
    lost = running.event("disconnected")
    assert (lost["malformed"], lost["answers"]) == (4, 1)


def test_it_survives_restarts_of_the_broker(bridge: Callable[..., Program], broker: RunningBroker, model: str) -> None:
    running = bridge("--serial", model, "--board", "model")
    for restart in range(3):
        client = client_of(broker)
        assert ask(client, restart).outcome == "ok"
        broker.kill()
        running.event("disconnected")
        broker.start()
        running.event("connected")
    assert ask(client_of(broker), 3).outcome == "ok"


def test_it_waits_for_a_broker_that_is_not_there_yet(program: Start, broker: RunningBroker) -> None:
    broker.kill()
    running = program("rpi", "--broker", "127.0.0.1", "--port", str(broker.port), "--board", "none", events="stderr")
    broker.start()
    running.event("connected")
    assert ask(client_of(broker), 0).outcome == "ok"


def test_a_silent_board_costs_its_own_cycle_only(
    bridge: Callable[..., Program], broker: RunningBroker, port: ScriptedPort
) -> None:
    bridge("--serial", str(port.path), "--board", "usb")
    client = client_of(broker)
    assert ask(client, 0).outcome == "board-timeout"
    port.hear_id()
    client.connection.publish(request_topic(RUN, 0), Request(RUN, 1, 1, 0).encode(), 0)
    port.reply(port.hear_id(), 42)
    answer = Answer.decode(bytes(client.receive(2)[1].payload))
    assert (answer.sequence, answer.outcome, answer.temperature_centi) == (1, "ok", 42)


def test_an_unplugged_board_fails_cycles_until_it_is_back(
    bridge: Callable[..., Program], broker: RunningBroker, port: ScriptedPort
) -> None:
    bridge("--serial", str(port.path), "--board", "usb")
    client = client_of(broker)
    port.unplug()
    assert ask(client, 0).outcome == "board-error"
    port.plug()
    assert port.hear() == b"\n"  # it opened the port again
    client.connection.publish(request_topic(RUN, 0), Request(RUN, 1, 1, 0).encode(), 0)
    port.reply(port.hear_id(), 43)
    assert Answer.decode(bytes(client.receive(2)[1].payload)).temperature_centi == 43


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_it_without_a_traceback(
    bridge: Callable[..., Program], number: signal.Signals, code: int
) -> None:
    running = bridge("--board", "none")
    running.process.send_signal(number)
    assert running.wait() == code
    assert running.rest() == []


def test_it_imports_neither_the_runner_nor_the_analysis() -> None:
    for path in [*Path(ROOT / "rpi").glob("*.py"), *Path(ROOT / "clients").glob("*.py")]:
        text = path.read_text()
        assert "import experiments" not in text
        assert "from experiments" not in text
        assert "analysis import" not in text


@pytest.mark.parametrize(("qos", "qos_answer"), [(2, 0), (0, 2), (1, 1)])
def test_an_answer_leaves_at_the_qos_it_was_asked_for_whatever_the_requests(qos: int, qos_answer: int) -> None:
    """A broker delivers at the lower of two, so at the control loop an answer sent too high would not show."""
    published: list[int] = []

    class Recorder:
        def publish(self, _topic: str, _payload: bytes, qos: int) -> bool:
            published.append(qos)
            return True

    bridge = Bridge(Way("127.0.0.1", 1), NoBoard(), "none")
    question = Question(Request("0123abcd", 1, 0, qos_answer), 0, qos).answered("ok")
    bridge._answer(Recorder(), question)  # type: ignore[arg-type]
    assert published == [qos_answer]
