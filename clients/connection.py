# SPDX-License-Identifier: Apache-2.0
"""One MQTT connection driven by its owner's own select loop, shared by the control loop and the Pi.

paho's background thread would cost a thread hand-over per message and its timers round to milliseconds;
here the process that takes the time also waits, so nothing stands between a socket and its time stamp.
"""

from __future__ import annotations

import ctypes
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from clients import security
from clients.security import Security
from clients.way import Way

MessageHandler = Callable[[paho.MQTTMessage], None]

IN_FLIGHT = 20
"""How many QoS 1 and 2 messages may await their acknowledgement; above it paho queues, and T counts the wait.

Mosquitto's own limit (`max_inflight_messages`): beyond it, it acknowledges QoS 2 messages and then drops them.
"""

_PR_SET_TIMERSLACK = 29
_KEEPALIVE_S = 0
"""No keep-alive of MQTT's: the broker judges it by a clock that may be stepped, and threw clients off that were alive
(Mosquitto: "exceeded timeout"). TCP's own (below) sees a peer that is gone, by the kernel's timers, and needs nobody to
send a ping in the middle of a long wait."""

_TCP_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 60_000}
"""Seconds, the last in milliseconds; see tcp(7)."""


class ConnectionLostError(ConnectionError):
    """The broker is gone, or refused what was asked of it."""


class SubscriptionRefusedError(ConnectionLostError):
    """The broker will not deliver that topic to us."""


def attempt_timeouts_s() -> Iterator[float]:
    """How long to try each next time to reach a broker that may be restarting: short at first, then longer.

    A request to connect that meets a container on its way down is lost, and the kernel repeats it only after 1 s.
    """
    timeout_s = 0.05
    while True:
        yield timeout_s
        timeout_s = min(2.0, 1.2 * timeout_s)


def sharpen_timers() -> None:
    """Take the kernel's 50 µs timer slack off this thread; without effect where there is no prctl."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
    except (OSError, AttributeError):
        return


class _BufferedSocket:
    """paho asks for a packet's first byte, its length and its rest one by one; this makes them one system call."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._buffer = b""
        self.send = sock.send
        self.close = sock.close
        self.fileno = sock.fileno
        self.setblocking = sock.setblocking

    def recv(self, size: int) -> bytes:
        if not self._buffer:
            self._buffer = self._sock.recv(65536)
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def pending(self) -> int:
        """Bytes that no select will announce, because they are here already: of ours, or decrypted by TLS."""
        return len(self._buffer) + (self._sock.pending() if isinstance(self._sock, ssl.SSLSocket) else 0)

    def protection(self, credentials: Security) -> dict[str, Any]:
        """What this very socket is protected by; see `security.of_connection`."""
        return security.of_connection(self._sock, credentials)


class _Client(paho.Client):
    """paho's client on a buffered socket with the TCP option asked for, from the first byte on."""

    nodelay = True
    tls: ssl.SSLContext | None = None
    buffered: _BufferedSocket | None = None

    def give_up_after(self, timeout_s: float) -> None:
        """Set how long to try; paho's own property refuses that of a connection which is about to be replaced."""
        self._connect_timeout = timeout_s

    def _create_socket_connection(self) -> _BufferedSocket:  # type: ignore[override]
        sock = super()._create_socket_connection()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, int(self.nodelay))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _TCP_KEEPALIVE.items():
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        if self.tls is not None:  # here, for paho would wrap what it cannot: our buffered socket
            sock = self.tls.wrap_socket(sock, server_hostname=self.host)
        self.buffered = _BufferedSocket(sock)
        return self.buffered


class Connection:
    """An MQTT 3.1.1 connection; every wait is on its owner's thread.

    With a `persistent` session the broker keeps subscriptions and messages for the client's id, and what was on its way
    here at QoS 1 and 2 is sent again once this connection is opened again.
    """

    def __init__(self, way: Way, *, client_id: str, on_message: MessageHandler) -> None:
        self._way = way
        self._answers: dict[int, list[ReasonCode]] = {}
        self._connack: ReasonCode | None = None
        self._mqtt = _Client(
            CallbackAPIVersion.VERSION2, client_id=client_id, clean_session=not way.persistent,
            reconnect_on_failure=False,
        )  # fmt: skip
        self._mqtt.nodelay = way.nodelay
        self._mqtt.tls = way.credentials.tls
        if way.credentials.user is not None:
            self._mqtt.username_pw_set(way.credentials.user, way.credentials.password)
        self._mqtt.max_inflight_messages_set(IN_FLIGHT)
        self._mqtt.on_message = lambda _client, _userdata, message: on_message(message)
        self._mqtt.on_connect = self._on_connect
        self._mqtt.on_subscribe = self._on_subscribe

    def open(self, *, timeout_s: float) -> None:
        """Connect and wait for the CONNACK; raise ConnectionLostError or OSError."""
        self._connack = None
        self._mqtt.give_up_after(timeout_s)
        self._mqtt.connect(self._way.host, self._way.port, keepalive=_KEEPALIVE_S)
        self._wait_until(lambda: self._connack is not None, timeout_s, "no CONNACK")
        if self._connack is not None and self._connack.is_failure:
            raise ConnectionLostError(f"the broker refused the connection: {self._connack}")

    def subscribe(self, topic: str, qos: int, *, timeout_s: float) -> int:
        """Subscribe, wait for the SUBACK, return the QoS granted (0–2); raise ConnectionLostError when refused."""
        _, mid = self._mqtt.subscribe(topic, qos)
        if mid is None:
            raise ConnectionLostError("not connected")
        self._wait_until(lambda: mid in self._answers, timeout_s, "no SUBACK")
        granted = int(self._answers.pop(mid)[0].value)
        if granted > 2:
            raise SubscriptionRefusedError(f"the broker refused the subscription to {topic}")
        return granted

    def publish(self, topic: str, payload: bytes, qos: int, *, retain: bool = False) -> bool:
        """Hand one message to the socket; False when there is no connection. Not for use inside `on_message`."""
        return self._mqtt.publish(topic, payload, qos, retain).rc == MQTTErrorCode.MQTT_ERR_SUCCESS

    def wait(self, until_ns: int, others: Iterable[int] = ()) -> list[int]:
        """Sleep until CLOCK_MONOTONIC reads `until_ns`, the socket is readable, or one of `others` (descriptors) is.

        Reads what came from the broker and calls `on_message`; returns which of `others` are readable.
        Raises ConnectionLostError when the broker is gone.
        """
        sock = self._mqtt.socket()
        buffered = self._mqtt.buffered
        if sock is None or buffered is None:
            raise ConnectionLostError("the broker closed the connection")
        fd = sock.fileno()
        write = [fd] if self._mqtt.want_write() else []
        timeout_s = max(0, until_ns - time.monotonic_ns()) / 1e9
        readable, writable, _ = select.select([fd, *others], write, [], timeout_s)
        if fd in readable:
            self._check(self._mqtt.loop_read())
            while buffered.pending():
                self._check(self._mqtt.loop_read())
        # Acknowledgements that paho queued while it read, as well as what a full socket held back.
        if writable or (readable and self._mqtt.want_write()):
            self._check(self._mqtt.loop_write())
        return [other for other in readable if other != fd]

    def keep_alive(self) -> None:
        """Ping the broker when it is due; call now and then, outside what is timed."""
        self._check(self._mqtt.loop_misc())

    def protection(self) -> dict[str, Any]:
        """What the open connection is protected by; see `security.of_connection`."""
        assert self._mqtt.buffered is not None
        return self._mqtt.buffered.protection(self._way.credentials)

    def close(self) -> None:
        """Say goodbye, without waiting."""
        self._mqtt.disconnect()

    def _check(self, code: MQTTErrorCode) -> None:
        if code != MQTTErrorCode.MQTT_ERR_SUCCESS:
            raise ConnectionLostError(paho.error_string(code))

    def _wait_until(self, done: Callable[[], bool], timeout_s: float, otherwise: str) -> None:
        until_ns = time.monotonic_ns() + int(timeout_s * 1e9)
        while not done():
            if time.monotonic_ns() >= until_ns:
                raise ConnectionLostError(f"{otherwise} within {timeout_s:g} s")
            self.wait(until_ns)

    def _on_connect(
        self,
        _client: paho.Client,
        _userdata: object,
        _flags: object,
        reason: ReasonCode,
        _properties: Properties | None,
    ) -> None:
        self._connack = reason

    def _on_subscribe(
        self,
        _client: paho.Client,
        _userdata: object,
        mid: int,
        reasons: list[ReasonCode],
        _properties: Properties | None,
    ) -> None:
        self._answers[mid] = reasons
