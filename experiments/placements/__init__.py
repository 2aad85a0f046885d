# SPDX-License-Identifier: Apache-2.0
"""The stand: broker, control loop, Pi bridge and board, brought up together, in containers or as plain processes."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from experiments import contentions
from experiments.cells import Conditions
from experiments.cpus import cpu_sets
from experiments.errors import RefusedError, RequestFailedError, StandError
from experiments.faults import Hands, Life, Tasks
from experiments.knobs import Service
from experiments.roles import OBSERVER, Role, named

_REPLY_TIMEOUT_S = 20.0


class Channel:
    """Requests to a service, replies from it: JSON lines over whatever the placement connects us by."""

    def __init__(self, service: str) -> None:
        self._service = service
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue()

    def send(self, line: bytes) -> None:
        """Hand one line to the service's standard input; raise StandError where nobody takes it any more."""
        try:
            self.write(line + b"\n")
        except (OSError, ValueError):
            raise StandError(f"{self._service} has ended; see logs/{self._service}.log") from None

    def write(self, data: bytes) -> None:
        """Write to the service's standard input; raise OSError."""
        raise NotImplementedError

    def feed(self, lines: Iterator[bytes]) -> None:
        """Read events from `lines` in the background until it ends."""

        def read() -> None:
            try:
                for line in lines:
                    self._events.put(json.loads(line))
            except (OSError, ValueError):
                pass  # the end of the stream, said below
            self._events.put(None)

        threading.Thread(target=read, daemon=True).start()

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send one request and wait for its reply; raise RequestFailedError where that is an error."""
        self.send(json.dumps(request).encode())
        reply = self.receive(_REPLY_TIMEOUT_S)
        if reply.get("error"):
            raise RequestFailedError(f"{self._service}: {reply['error']}")
        return reply

    def receive(self, timeout_s: float) -> dict[str, Any]:
        """Return the next event; raise StandError when the service ends or stays silent."""
        try:
            event = self._events.get(timeout=timeout_s)
        except queue.Empty:
            raise StandError(f"{self._service} said nothing for {timeout_s:.0f} s; see its log in the bundle") from None
        if event is None:
            raise StandError(f"{self._service} ended unexpectedly; see logs/{self._service}.log")
        return event


@dataclass(frozen=True)
class Configuration:
    """What a service was told to run on."""

    path: str
    """Of the file, as its process sees it."""
    text: str


class Stand:
    """What the runner needs of a placement; subclasses know containers or processes."""

    name: ClassVar[str]
    containers: ClassVar[bool]
    roles: ClassVar[tuple[Role, ...]]
    """Of the family that it is a stand of."""

    def __init__(self) -> None:
        self.host_cpus, self.pi_cpus = cpu_sets()
        self.conditions: Conditions | None = None
        """Those that it was brought to; None: whatever is there must go."""
        self._channels: dict[str, Channel] = {}
        self._touched: set[str] = set()
        """Services on whose processes `apply` set something."""
        self.as_run: str | None = None
        """The Compose project that was brought up last; none in plain processes."""

    def check(self, conditions: Conditions) -> None:
        """Raise BadInputError where these conditions cannot be had here. Starts nothing."""
        raise NotImplementedError

    def obtain(self, conditions: Conditions) -> None:
        """Get what of these conditions may be out of reach, once all were checked; raise BadInputError where it is."""

    def prepare(self, folder: Path, run: str) -> dict[str, Any]:
        """Get images or programs ready, before anything is measured; returns facts for bundle.json."""
        raise NotImplementedError

    def up(self, conditions: Conditions) -> None:
        """Bring the stand to these conditions; cheap when it is there already."""
        raise NotImplementedError

    def refresh(self) -> None:
        """Replace by new ones what may keep anything from one repetition to the next."""
        raise NotImplementedError

    def capture(self) -> Channel:
        """Start a capture of what passes; it ends with its reply to `stop`."""
        raise NotImplementedError

    def restart(self, service: str) -> None:
        """Start a service anew that ends by itself."""
        raise NotImplementedError

    def configurations(self) -> dict[str, Configuration]:
        """Return, by service, the configuration it was told to run on; of those that have one to be proved."""
        return {}

    def reset(self) -> None:
        """Something died or lied: have the next `up` start everything anew."""
        raise NotImplementedError

    def pids(self) -> dict[str, int]:
        """Return each running service's first process; raise StandError where one does not run."""
        raise NotImplementedError

    def ailing(self) -> dict[str, str]:
        """Return what is wrong with each service that should run and does not: it has stopped, or is frozen."""
        raise NotImplementedError

    def gone(self) -> str | None:
        """Return why nothing can be brought up here any more, with the remedy; None: it can."""
        return None

    def floor_us(self, interval_ms: int = 5) -> list[int]:
        """Round trips (µs) of 100 raw TCP echoes between the two ends of the loop: the instrument's floor."""
        raise NotImplementedError

    def down(self) -> None:
        """Leave nothing running."""
        raise NotImplementedError

    def signal(self, service: str, number: int) -> None:
        """Send a signal to a service's first process."""
        raise NotImplementedError

    def life(self, service: str) -> Life:
        """Return the present life of a service, or the one that ended last."""
        raise NotImplementedError

    def hands(self) -> Hands:
        """Return what faults may do to it, and read of it."""
        raise NotImplementedError

    def revive(self, service: str) -> None:
        """Start a service that ended, as it was started before."""
        raise NotImplementedError

    def log(self, service: str) -> bytes:
        """Return what a service that takes no requests has said so far, in all its lives."""
        raise NotImplementedError

    def tasks(self, service: str) -> Tasks:
        """Ask the kernel for the threads of a service."""
        return Tasks(**self.channel("observer").ask(do="tasks", pid=self.life(service).pid))

    def channel(self, service: str) -> Channel:
        """Return the connection to a service that takes requests."""
        return self._channels[service]

    def service(self, name: str) -> Service:
        """Return a service with the CPUs of its side of the stand."""
        role = self.role(name)
        return Service(name, self.cpus(role.side), role.connects)

    def cpus(self, side: str) -> tuple[int, ...]:
        """Return the CPUs of a side, `host` or `pi`."""
        return tuple(int(cpu) for cpu in {"host": self.host_cpus, "pi": self.pi_cpus}[side].split(","))

    def role(self, service: str) -> Role:
        """Return what is known of a service of this stand."""
        return named([*self.roles, OBSERVER, *contentions.roles()], service)

    def rt_budget_us(self, conditions: Conditions, service: str) -> int:
        """Return a service's share of the real-time budget a second; 0 where it has none, or no group of its own."""
        real_time = [
            name for name, knob in conditions.each_knob() if any(setting in REAL_TIME for setting, _ in knob.settings())
        ]
        return RT_BUDGET_US // len(real_time) if self.containers and service in real_time else 0

    def memory_limit_bytes(self, service: str) -> int | None:  # noqa: ARG002
        """Return how much memory a service's group may take; None where it has none of its own, or no limit."""
        return None

    def apply(self, conditions: Conditions) -> None:
        """Set what is set on running processes; raise RefusedError with the reason and the remedy."""
        pids = self.pids()
        wanted = [(service, knob) for service, knob in conditions.each_knob() if knob.settings()]
        for service, knob in wanted:
            if service not in pids:
                raise RefusedError(f"{service}={knob}: this stand has no {service}")
            self._touched.add(service)
            for setting, value in knob.settings():
                budget_us = self.rt_budget_us(conditions, service) if setting in REAL_TIME else 0
                try:
                    self.channel("observer").ask(
                        do="apply", pid=pids[service], setting=setting, value=value,
                        containers=self.containers, rt_budget_us=budget_us,
                    )  # fmt: skip
                except RequestFailedError as error:
                    if ill := self.ailing().get(service):
                        raise StandError(ill) from None
                    raise RefusedError(f"{service}={knob}: {error}; {REFUSED_REMEDY}") from None


REAL_TIME = ("fifo", "rr")
RT_BUDGET_US = 800_000
"""Shared by all real-time services, of the 900 ms a second that the group above them gets."""
REFUSED_REMEDY = (
    "it needs CAP_SYS_NICE, and where the kernel has RT_GROUP_SCHED a budget that only cgroup v1 can give: "
    "see `make doctor`; nice:N, weight:N or cpus:LIST may do instead"
)
