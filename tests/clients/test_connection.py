# SPDX-License-Identifier: Apache-2.0
"""One connection against a real broker."""

from __future__ import annotations

import os
import socket
import threading
import time

import pytest
from stand import PATIENCE_S, Client, RunningBroker, free_port

from clients.connection import Connection, ConnectionLostError, attempt_timeouts_s
from clients.way import Way


def connection(port: int) -> Connection:
    return Connection(Way("127.0.0.1", port), client_id="test", on_message=lambda _message: None)


@pytest.mark.parametrize("nodelay", [True, False])
def test_tcp_nodelay_is_on_the_socket_as_asked_for(broker: RunningBroker, nodelay: bool) -> None:
    client = Client(broker.port, nodelay=nodelay)
    buffered = client.connection._mqtt.buffered
    assert buffered is not None
    with socket.socket(fileno=os.dup(buffered.fileno())) as sock:
        assert bool(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)) == nodelay


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_arrive_once_in_order_at_the_qos_they_were_sent_with(broker: RunningBroker, qos: int) -> None:
    client = Client(broker.port)
    assert client.subscribe("testbed/x", qos) == qos
    payloads = [b"%d" % number for number in range(300)]  # more than may be in flight at once
    for payload in payloads:
        assert client.connection.publish("testbed/x", payload, qos)
    received = client.receive(len(payloads))
    assert [message.payload for message in received] == payloads
    assert {message.qos for message in received} == {qos}
    assert len(client.messages) == len(payloads)


def test_a_message_larger_than_the_receive_buffer_arrives_whole(broker: RunningBroker) -> None:
    client = Client(broker.port)
    client.subscribe("testbed/x")
    payload = bytes(range(256)) * 1024
    client.connection.publish("testbed/x", payload, 1)
    assert client.receive(1)[0].payload == payload


def test_waiting_ends_at_its_time_or_when_another_descriptor_is_readable(broker: RunningBroker) -> None:
    client = Client(broker.port)
    until_ns = time.monotonic_ns() + 5_000_000
    assert client.connection.wait(until_ns) == []
    assert time.monotonic_ns() >= until_ns
    readable, written = os.pipe()
    os.write(written, b"x")
    assert client.connection.wait(time.monotonic_ns() + int(PATIENCE_S * 1e9), [readable]) == [readable]
    os.close(readable)
    os.close(written)


def test_a_killed_broker_is_noticed_while_waiting_and_then_nothing_can_be_published(broker: RunningBroker) -> None:
    client = Client(broker.port)
    broker.kill()
    with pytest.raises(ConnectionLostError):
        client.receive(1)
    assert not client.connection.publish("testbed/x", b"", 0)
    with pytest.raises(ConnectionLostError):
        client.connection.wait(time.monotonic_ns())
    with pytest.raises(ConnectionLostError):
        client.connection.subscribe("testbed/x", 0, timeout_s=PATIENCE_S)


def test_opening_fails_where_nobody_listens() -> None:
    with pytest.raises(OSError, match="refused"):
        connection(free_port()).open(timeout_s=PATIENCE_S)


def test_opening_fails_where_a_listener_never_says_connack() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(ConnectionLostError, match="no CONNACK"):
        connection(silent.getsockname()[1]).open(timeout_s=0.1)


def test_a_refusal_is_told_with_its_reason() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def refuse() -> None:
            client, _ = server.accept()
            with client:
                client.recv(4096)
                client.sendall(b"\x20\x02\x00\x05")  # CONNACK: not authorised
                client.recv(4096)

        refusing = threading.Thread(target=refuse)
        refusing.start()
        with pytest.raises(ConnectionLostError, match="refused"):
            connection(server.getsockname()[1]).open(timeout_s=PATIENCE_S)
        refusing.join(PATIENCE_S)


@pytest.mark.parametrize("qos", [1, 2])
def test_no_more_messages_are_under_way_than_a_broker_takes_that_acknowledges_none(
    qos: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clients.connection.IN_FLIGHT", 7)  # not paho's own default
    with socket.create_server(("127.0.0.1", 0)) as server:
        heard: list[bytes] = []

        def listen() -> None:
            client, _ = server.accept()
            with client:
                client.recv(4096)
                client.sendall(b"\x20\x02\x00\x00")  # CONNACK: welcome
                heard.extend(iter(lambda: client.recv(4096), b""))

        listening = threading.Thread(target=listen)
        listening.start()
        sender = connection(server.getsockname()[1])
        sender.open(timeout_s=PATIENCE_S)
        for _ in range(30):
            sender.publish("testbed/x", b"#", qos)
        sender.close()
        listening.join(PATIENCE_S)
    assert b"".join(heard).count(b"#") == 7


def test_attempts_become_longer_but_never_too_long() -> None:
    timeouts = attempt_timeouts_s()
    first = [next(timeouts) for _ in range(50)]
    assert first == sorted(first)
    assert (first[0], first[-1]) == (0.05, 2.0)


@pytest.mark.parametrize("persistent", [False, True])
def test_only_a_persistent_session_gets_what_was_said_while_it_was_away(
    broker: RunningBroker, persistent: bool
) -> None:
    if persistent and broker.kind == "amqtt":
        pytest.skip("aMQTT keeps no session of a client without a name of its own")
    heard: list[bytes] = []
    away = Connection(
        Way("127.0.0.1", broker.port, persistent=persistent), client_id="away",
        on_message=lambda message: heard.append(bytes(message.payload)),
    )  # fmt: skip
    away.open(timeout_s=PATIENCE_S)
    away.subscribe("testbed/x", 1, timeout_s=PATIENCE_S)
    away.close()
    other = Client(broker.port, name="other")
    other.subscribe("testbed/x", 1)
    other.connection.publish("testbed/x", b"meanwhile", 1)
    other.receive(1)  # so the broker has dealt with it
    away.open(timeout_s=PATIENCE_S)
    away.subscribe("testbed/y", 1, timeout_s=PATIENCE_S)
    until_ns = time.monotonic_ns() + (int(PATIENCE_S * 1e9) if persistent else 200_000_000)
    while not heard and time.monotonic_ns() < until_ns:
        away.wait(min(until_ns, time.monotonic_ns() + 50_000_000))
    assert heard == ([b"meanwhile"] if persistent else [])
