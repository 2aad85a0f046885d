# SPDX-License-Identifier: Apache-2.0
"""The load generator: every message is accounted for, whatever the broker does."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stand import PATIENCE_S, ROOT, Client, Program, RunningBroker, eventually, free_port

from clients import flood, packets
from clients.flood_client import IN_FLIGHT, SMALLEST_PAYLOAD, WINDOW, Histogram
from clients.flood_job import FloodJob
from experiments import brokers

RUN = "0123abcd"
THESIS = {
    "num-clients": "100", "num-messages": "10", "rampup-delay": "1s", "rampup-size": "10", "global-timeout": "180s",
    "timeout": "20s",
}  # fmt: skip

mosquitto_only = pytest.mark.skipif(brokers.on_this_host().kind != "mosquitto", reason="asks Mosquitto's own counters")

Answers = Callable[[int, bytes], list[bytes]]
"""What a scripted broker says to a client's message: its number, and it as a packet, give whole packets."""


class Flooder:
    """The generator as the runner uses it: jobs in, events out."""

    def __init__(self, program: Callable[..., Program], port: int, *options: str) -> None:
        self.program = program("clients.flood", "--jobs", "--broker", "127.0.0.1", "--port", str(port), *options)
        self.program.event("waiting")

    def flood(self, **job: Any) -> None:
        self.program.send(json.dumps({"run": RUN, "rampup_delay_s": 0.02} | job))

    def stop(self) -> dict[str, Any]:
        self.program.send("stop")
        return self.end("done")

    def end(self, name: str) -> dict[str, Any]:
        """The last event of a flood, whose counts must add up."""
        event: dict[str, Any] = self.program.event(name)
        assert event["offered"] == event["sent"] + event["unsent"]
        assert event["sent"] == event["delivered"] + event["dropped"]
        assert min(event["unsent"], event["dropped"], event["delivered"]) >= 0
        return event


class ScriptedBroker:
    """Grants every connection, then answers what is published as a script tells it to."""

    def __init__(self, answers: Answers, *, code: int = 0, grants: int | None = None) -> None:
        self._answers, self._code, self._grants = answers, code, grants
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        rest, number = b"", 0
        with connection:
            while data := connection.recv(65536):
                arrived, rest = packets.split(rest + data)
                for first, body in arrived:
                    answers = []
                    if first == 0x10:
                        answers = [bytes([packets.CONNACK, 2, 0, self._code])]
                    elif first == 0x82:
                        granted = body[-1] if self._grants is None else self._grants
                        answers = [bytes([packets.SUBACK, 3, *body[:2], granted])]
                    elif first & 0xF0 == packets.PUBLISH:
                        topic, _, payload = packets.read_publish(first, body)
                        answers = self._answers(number, packets.publish(topic, payload))
                        number += 1
                    connection.sendall(b"".join(answers))


@pytest.fixture
def flooder(program: Callable[..., Program], broker: RunningBroker) -> Flooder:
    return Flooder(program, broker.port)


@pytest.fixture
def scripted(program: Callable[..., Program]) -> Iterator[Callable[..., Flooder]]:
    """A flooder whose broker is a script."""
    started: list[ScriptedBroker] = []

    def start(answers: Answers, *options: str, **peculiar: int) -> Flooder:
        started.append(ScriptedBroker(answers, **peculiar))
        return Flooder(program, started[-1].port, *options)

    yield start
    for running in started:
        running.close()


def echo(number: int, message: bytes) -> list[bytes]:
    del number
    return [message]


# What a flood does


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_the_published_flood_gets_every_message_back(flooder: Flooder, qos: int) -> None:
    flooder.flood(clients=12, messages=10, rampup_size=5, qos=qos)
    done = flooder.end("done")
    assert (done["ended"], done["rounds"]) == ("messages", 1)
    assert done["offered"] == done["delivered"] == 120
    assert done["acknowledged"] == (120 if qos else 0)
    assert (done["connects"], done["failed_connects"], done["disconnects"]) == (12, 0, 0)
    assert 0 < done["latency_us"]["p50"] <= done["latency_us"]["p90"]


def test_the_published_flood_starts_over_until_it_is_stopped(flooder: Flooder) -> None:
    flooder.flood(clients=4, messages=3, rampup_size=2, repeat=True)
    flooder.program.event("flooding")
    time.sleep(0.5)
    done = flooder.stop()
    assert done["ended"] == "stop"
    assert done["rounds"] > 1
    assert done["connects"] > 4
    assert done["sent"] > 12
    assert done["dropped"] == 0


@pytest.mark.parametrize(
    "job", [{"messages": 3, "repeat": True}, {"messages": None, "saturate": True}, {"messages": None, "rate": 100.0}]
)
def test_a_flooder_that_was_frozen_says_for_how_long(flooder: Flooder, job: dict[str, Any]) -> None:
    flooder.flood(clients=4, rampup_size=2, **job)
    flooder.program.event("flooding")
    flooder.program.process.send_signal(signal.SIGSTOP)
    time.sleep(1)
    flooder.program.process.send_signal(signal.SIGCONT)
    done = flooder.stop()
    assert 0.75 < done["stalled_s"] <= done["elapsed_s"]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_an_open_loop_keeps_its_rate(flooder: Flooder, qos: int) -> None:
    flooder.flood(clients=10, messages=None, rate=300.0, qos=qos)
    assert flooder.program.event("flooding")["clients"] == 10
    time.sleep(1)
    done = flooder.stop()
    assert 150 <= done["offered"] / done["elapsed_s"] <= 600
    assert done["delivered"] >= done["offered"] / 2
    assert done["lateness_us"]["max"] > 0


def test_an_open_loop_with_an_end_sends_exactly_what_was_asked(flooder: Flooder) -> None:
    flooder.flood(clients=7, messages=20, rate=500.0)
    done = flooder.end("done")
    assert (done["ended"], done["offered"], done["delivered"]) == ("messages", 140, 140)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_saturation_floods_until_stopped_and_loses_nothing(flooder: Flooder, qos: int) -> None:
    flooder.flood(clients=5, messages=None, saturate=True, qos=qos)
    assert flooder.program.event("flooding")["rate"] > 0
    done = flooder.stop()
    assert done["offered"] == done["sent"] == done["delivered"] > 5 * WINDOW


def test_the_global_timeout_ends_a_flood_that_nobody_stops(flooder: Flooder) -> None:
    flooder.flood(clients=2, messages=None, rate=50.0, global_timeout_s=0.6)
    assert flooder.end("done")["ended"] == "global-timeout"


def test_a_late_stop_is_ignored_and_the_next_job_runs(flooder: Flooder) -> None:
    flooder.flood(clients=1, messages=1)
    flooder.end("done")
    flooder.program.send("stop")
    flooder.flood(clients=1, messages=2)
    assert flooder.end("done")["delivered"] == 2


def test_the_end_of_input_ends_load_and_program(flooder: Flooder) -> None:
    flooder.flood(clients=2, messages=None, rate=50.0)
    flooder.program.event("flooding")
    flooder.program.end_input()
    flooder.end("done")
    assert flooder.program.wait() == 0


def test_sigterm_ends_load_and_program(flooder: Flooder) -> None:
    flooder.flood(clients=2, messages=None, rate=50.0)
    flooder.program.event("flooding")
    flooder.program.process.terminate()
    flooder.end("done")
    assert flooder.program.wait() == 0


def test_a_flood_stopped_while_it_connects_leaves_no_connection(flooder: Flooder) -> None:
    descriptors = Path(f"/proc/{flooder.program.process.pid}/fd")
    before = len(list(descriptors.iterdir()))
    flooder.flood(clients=2000, messages=None, rate=50.0, rampup_size=2000, slow_consumers=1)
    eventually(lambda: len(list(descriptors.iterdir())) > before + 10, "some connections")
    done = flooder.stop()
    assert (done["ended"], done["offered"]) == ("stop", 0)
    assert done["connects"] < 2001
    eventually(lambda: len(list(descriptors.iterdir())) <= before, "the end of all connections")


@mosquitto_only
def test_who_does_not_read_makes_the_broker_queue_and_then_drop(broker: RunningBroker, flooder: Flooder) -> None:
    onlooker = Client(broker.port)
    onlooker.subscribe("$SYS/broker/publish/messages/dropped", 0)
    flooder.flood(clients=5, messages=None, rate=1000.0, slow_consumers=2, payload_bytes=8000)
    flooder.program.event("flooding")
    seen = 1
    while int(onlooker.receive(seen)[-1].payload) == 0:
        seen += 1
    done = flooder.stop()
    assert done["connects"] == 7
    assert done["dropped"] == 0


# What goes wrong, and is told


def test_a_broker_that_dies_ends_the_flood_with_honest_counts(broker: RunningBroker, flooder: Flooder) -> None:
    flooder.flood(clients=6, messages=None, rate=600.0)
    flooder.program.event("flooding")
    broker.kill()
    failed = flooder.end("failed")
    assert "closed the connections of all 6 clients" in failed["reason"]
    assert failed["disconnects"] == 6
    assert failed["delivered"] > 0
    broker.start()
    flooder.flood(clients=1, messages=1)
    assert flooder.end("done")["delivered"] == 1


def test_without_a_broker_it_fails_after_its_patience(program: Callable[..., Program]) -> None:
    flooder = Flooder(program, free_port(), "--patience", "300ms")
    flooder.flood(clients=1, messages=1)
    failed = flooder.end("failed")
    assert "no broker at 127.0.0.1" in failed["reason"]
    assert failed["offered"] == 0


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        ({"run": "nothex"}, "8 hex digits"),
        ({"rate": 0}, "rate 0"),
        ({"rate": 5, "saturate": True}, "exclude each other"),
        ({"messages": None}, "without an end"),
        ({"payload_bytes": SMALLEST_PAYLOAD - 1}, "payload_bytes 11"),
        ({"qos": 3}, "qos 3"),
        ({"clients": 0}, "clients 0"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_job_that_cannot_be_is_refused(program: Callable[..., Program], job: dict[str, Any], reason: str) -> None:
    flooder = Flooder(program, free_port())
    flooder.flood(**job)
    assert reason in flooder.program.event("failed")["reason"]


def test_what_the_broker_drops_is_counted(scripted: Callable[..., Flooder]) -> None:
    flooder = scripted(lambda number, message: [] if number % 5 == 4 else [message])
    flooder.flood(clients=3, messages=20, rate=400.0)
    done = flooder.end("done")
    assert (done["sent"], done["delivered"], done["dropped"]) == (60, 48, 12)


def test_what_the_broker_sends_twice_counts_once(scripted: Callable[..., Flooder]) -> None:
    flooder = scripted(lambda _, message: [message, message])
    flooder.flood(clients=2, messages=20, rate=400.0)
    done = flooder.end("done")
    assert done["delivered"] == 40
    assert 38 <= done["duplicates"] <= 40  # the flood may be over before the very last ones are here


def test_what_nobody_sent_is_foreign(scripted: Callable[..., Flooder]) -> None:
    flooder = scripted(lambda _, message: [packets.publish(b"other", bytes(100)), message])
    flooder.flood(clients=2, messages=20, rate=400.0)
    done = flooder.end("done")
    assert (done["delivered"], done["foreign"]) == (40, 40)


def test_a_window_whose_messages_were_all_dropped_opens_again(scripted: Callable[..., Flooder]) -> None:
    flooder = scripted(lambda number, message: [message] if number >= WINDOW else [])
    flooder.flood(clients=1, messages=2 * WINDOW, saturate=True)
    done = flooder.end("done")
    assert (done["sent"], done["delivered"], done["dropped"]) == (2 * WINDOW, WINDOW, WINDOW)


def test_without_acknowledgements_only_a_window_is_sent_and_the_rest_counts_as_unsent(
    scripted: Callable[..., Flooder],
) -> None:
    flooder = scripted(echo)
    flooder.flood(clients=2, messages=IN_FLIGHT + 30, rate=2000.0, qos=1, global_timeout_s=1)
    done = flooder.end("done")
    assert (done["offered"], done["sent"], done["acknowledged"]) == (2 * IN_FLIGHT + 60, 2 * IN_FLIGHT, 0)


def test_a_lower_qos_than_asked_is_no_connection(scripted: Callable[..., Flooder]) -> None:
    flooder = scripted(echo, grants=0)
    flooder.flood(clients=3, messages=1, qos=1)
    failed = flooder.end("failed")
    assert "did not grant QoS 1" in failed["reason"]
    assert (failed["failed_connects"], failed["offered"], failed["sent"]) == (3, 3, 0)


def test_a_broker_that_refuses_is_asked_until_patience_ends(scripted: Callable[..., Flooder]) -> None:
    flooder = scripted(echo, "--patience", "3s", code=5)
    flooder.flood(clients=1, messages=1)
    assert "refused the connection (code 5)" in flooder.end("failed")["reason"]


def test_bytes_that_are_no_mqtt_end_a_connection(scripted: Callable[..., Flooder]) -> None:
    flooder = scripted(lambda *_: [b"\x30\xff\xff\xff\xff\xff"])
    flooder.flood(clients=2, messages=None, rate=100.0)
    failed = flooder.end("failed")
    assert (failed["disconnects"], failed["delivered"]) == (2, 0)


# By hand


@pytest.mark.parametrize("dash", ["-", "--"])
def test_the_thesis_options_are_understood_and_are_the_default(dash: str) -> None:
    words = [word for name, value in THESIS.items() for word in (dash + name, value)]
    given_, default = (flood.job_of(flood.parser().parse_args(arguments)) for arguments in (words, []))
    expected = FloodJob(given_.run, 100, 10, None, False, 1.0, 10, 20.0, 180.0)
    assert given_ == expected
    assert default == FloodJob(default.run)
    assert given_.published


def test_a_rate_has_no_end_of_its_own_unless_told() -> None:
    assert flood.job_of(flood.parser().parse_args(["--rate", "5"])).messages is None
    assert flood.job_of(flood.parser().parse_args(["--rate", "5", "-num-messages", "3"])).messages == 3


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1s", 1), ("500ms", 0.5), ("1m30s", 90), ("1h", 3600), ("0", 0), ("1.5s", 1.5), ("20us", 2e-5)],
)
def test_durations_are_read_as_go_writes_them(text: str, seconds: float) -> None:
    assert flood.duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "s", "1s!", "-1s", "1 s", "1d"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no duration"):
        flood.duration_s(text)


@pytest.mark.parametrize("load", [[], ["--rate", "300", "--duration", "300ms"], ["--saturate", "--duration", "300ms"]])
def test_by_hand_it_prints_what_became_of_every_message(broker: RunningBroker, load: list[str]) -> None:
    broker_url = f"tcp://127.0.0.1:{broker.port}"
    few = ["-broker", broker_url, "-num-clients", "4", "-rampup-delay", "10ms", *load]
    done = subprocess.run(
        [sys.executable, "-m", "clients.flood", *few],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    for word in ("offered ", "delivered ", "msg/s sent", "connects 4, failed 0", "publish to deliver, µs: p50 "):
        assert word in done.stdout
    assert ("lateness" in done.stdout) == ("--rate" in load)


# Its histogram


@given(st.lists(st.integers(1_000, 10**12), min_size=100, max_size=300), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_quantile_lies_within_three_percent_of_the_sorted_one(durations_ns: list[int], quantile: float) -> None:
    histogram = Histogram()
    for duration_ns in durations_ns:
        histogram.add(duration_ns)
    ordered = sorted(durations_ns)
    told_ns = 1000 * (histogram.quantile_us(quantile) or 0)
    rank = quantile * len(ordered)
    low, high = ordered[max(0, round(rank - 1.5))], ordered[min(len(ordered) - 1, round(rank + 0.5))]
    assert 0.97 * low - 1000 <= told_ns <= 1.03 * high + 1000
    assert histogram.max_ns == ordered[-1]


def test_no_quantile_without_a_duration_beyond_it() -> None:
    histogram = Histogram()
    assert histogram.record() == {"p50": None, "p90": None, "p99": None, "max": None}
    for _ in range(99):
        histogram.add(5000)
    assert histogram.quantile_us(0.99) is None
    histogram.add(-1)
    assert histogram.quantile_us(0.99) == 5
