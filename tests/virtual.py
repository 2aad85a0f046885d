# SPDX-License-Identifier: Apache-2.0
"""Virtual time: a clock that passes only where a test says so, and an MQTT connection that takes as long as it says."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from paho.mqtt.client import MQTTMessage

from clients.connection import ConnectionLostError

MS = 1_000_000
US = 1_000


class Clock:
    """Stands in for the module `time`: CLOCK_MONOTONIC in ns, and nothing passes by itself."""

    def __init__(self) -> None:
        self.now_ns = 10**12

    def monotonic_ns(self) -> int:
        return self.now_ns

    def monotonic(self) -> float:
        return self.now_ns / 1e9

    def process_time(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)

    def governs(self, monkeypatch: pytest.MonkeyPatch, *modules: str) -> Clock:
        """Let these modules read this clock."""
        for module in modules:
            monkeypatch.setattr(f"{module}.time", self)
        return self

    def costs(self, monkeypatch: pytest.MonkeyPatch, where: type, name: str, ns: int) -> None:
        """Let a function take its time."""
        real = getattr(where, name)

        def slow(*arguments: Any) -> Any:
            self.now_ns += ns
            return real(*arguments)

        monkeypatch.setattr(where, name, slow)


@dataclass(frozen=True)
class Published:
    """What was handed to the connection, and when."""

    t_ns: int
    topic: str
    payload: bytes
    qos: int


Delivery = tuple[int, str, bytes]
"""How many ns after a message was handed over, at which topic, what arrives."""


@dataclass
class Transport:
    """In the place of `clients.connection.Connection`: delivers what `network` makes of what is published.

    Publishing takes `publish_ns`; a wait that nothing interrupts ends `wakes_late_ns` after its time. Where `gone_ns`
    is given, the broker is gone from that time on; opened again it is back at `back_ns`, where that is given.
    """

    clock: Clock
    network: Callable[[Published], Iterable[Delivery]]
    on_message: Callable[[MQTTMessage], None] = lambda _message: None
    publish_ns: int = 0
    wakes_late_ns: int = 0
    gone_ns: int | None = None
    back_ns: int | None = None
    retained: dict[str, bytes] = field(default_factory=dict)
    """What a subscriber to a topic gets at once."""
    published: list[Published] = field(default_factory=list)
    _due: list[tuple[int, int, MQTTMessage]] = field(default_factory=list)
    _number: Any = field(default_factory=itertools.count)

    def open(self, *, timeout_s: float) -> None:
        del timeout_s
        if self._gone():
            if self.back_ns is None:
                raise ConnectionRefusedError("refused")
            self.clock.now_ns, self.gone_ns = max(self.clock.now_ns, self.back_ns), None

    def subscribe(self, topic: str, qos: int, *, timeout_s: float) -> int:
        del timeout_s
        if topic in self.retained:
            self.deliver(self.clock.now_ns, topic, self.retained[topic])
        return qos

    def protection(self) -> dict[str, Any]:
        return {}

    def keep_alive(self) -> None:
        pass

    def close(self) -> None:
        pass

    def deliver(self, at_ns: int, topic: str, payload: bytes, qos: int = 0) -> None:
        """Let a message arrive at a time."""
        message = MQTTMessage(topic=topic.encode())
        message.payload, message.qos = payload, qos
        heapq.heappush(self._due, (at_ns, next(self._number), message))

    def publish(self, topic: str, payload: bytes, qos: int, *, retain: bool = False) -> bool:
        del retain
        handed = Published(self.clock.now_ns, topic, payload, qos)
        self.published.append(handed)
        self.clock.now_ns += self.publish_ns
        for after_ns, answer_topic, answer in self.network(handed):
            self.deliver(handed.t_ns + after_ns, answer_topic, answer, qos)
        return True

    def wait(self, until_ns: int, others: Iterable[int] = ()) -> list[int]:
        del others
        if self._due and self._due[0][0] <= max(until_ns, self.clock.now_ns):
            at_ns, _, message = heapq.heappop(self._due)
            self.clock.now_ns = max(self.clock.now_ns, at_ns)
            self._check()
            self.on_message(message)
        else:
            if until_ns > self.clock.now_ns:
                self.clock.now_ns = until_ns + self.wakes_late_ns
            self._check()
        return []

    def _check(self) -> None:
        if self._gone():
            raise ConnectionLostError("the broker closed the connection")

    def _gone(self) -> bool:
        return self.gone_ns is not None and self.clock.now_ns >= self.gone_ns
