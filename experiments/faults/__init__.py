# SPDX-License-Identifier: Apache-2.0
"""What breaks in the middle of a repetition. `FAULT=SERVICE:KIND[:DURATION]`; one file a kind.

A fault is injected once in each repetition, at a time set beforehand, and proved: what it claims is read back from the
kernel, the engine or the Pi while it lasts and after it. A fault without that evidence refuses its repetition.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar, Protocol

from experiments.errors import BadInputError, StandError
from experiments.registry import Registry

REGISTRY: Registry[type[Fault]] = Registry(__name__)

UNBROKEN = 10
"""Answered cycles in a row after which the loop counts as recovered, as `analysis.statistics.recovery` has it."""

LONGEST_MS = 7_200_000
PATIENCE_S = 5.0
"""What was done shows within that time, or it was not done."""


@dataclass(frozen=True)
class Life:
    """One life of a service: its first process, when that began, and how it ended (None: it runs)."""

    pid: int
    began: str
    """Differs from one life to the next."""
    exit_status: int | None
    """As a shell gives it: 128 and the signal's number where a signal ended it."""


@dataclass(frozen=True)
class Tasks:
    """What the kernel says of a service's threads."""

    states: str
    """One letter a thread, as proc_pid_stat(5) has them; T: stopped."""
    run_ns: int
    """How long all of them ran on a CPU so far: who does not run writes nothing."""


class Hands(Protocol):
    """What a fault may do to a stand, and where it reads what came of it."""

    def signal(self, service: str, number: int) -> None:
        """Send a signal to a service's first process."""

    def life(self, service: str) -> Life:
        """The present life of a service, or the one that ended last."""

    def revive(self, service: str) -> None:
        """Start a service that ended, as it was started before."""

    def tasks(self, service: str) -> Tasks:
        """Ask the kernel for the threads of a service."""

    def board_counts(self) -> dict[str, int]:
        """What the Pi has counted at its board so far: `boots`, `garbage_lines`, `plugged`, `unplugged`, …."""

    def link(self, do: str) -> bool:
        """Take the Pi's network interface down (`cut`), up (`mend`), or neither (`read`); says whether it is up."""

    def disk(self, do: str) -> int:
        """Fill the broker's disk (`fill`), empty it of that (`empty`), or neither (`read`). Gives the free bytes."""


@dataclass(frozen=True)
class Place:
    """Where a fault is asked for: what decides whether it can be had."""

    containers: bool
    simulated_board: bool = False
    """Is there a board that is a program, and obeys us?"""


@dataclass(frozen=True)
class Evidence:
    """One thing read back, on CLOCK_MONOTONIC: what it was to show, how it read, and whether that is it."""

    what: str
    read: str
    holds: bool
    t_ns: int


class Account(Protocol):
    """What a fault tells of itself as it goes."""

    def evidence(self, what: str, read: str, holds: bool) -> None:
        """Keep what was to be seen, how it read just now, and whether that is it."""

    def ended(self) -> None:
        """Keep the time: what it took is put back just now."""


@dataclass(frozen=True)
class Fault:
    """A kind of fault at a service; subclasses are small."""

    service: str
    duration_ms: int = 0
    kind: ClassVar[str]
    targets: ClassVar[tuple[str, ...]]
    example: ClassVar[str] = ""
    """A duration, for the kinds that take one."""
    recovery_ms: ClassVar[int] = 2000
    """How long after its end the repetition must go on: a stand that works answers again by then."""
    of_the_host: ClassVar[bool] = False
    """Does it act on the machine itself, beyond the stand?"""
    helper: ClassVar[str | None] = None
    """A service of the Compose file that brings it about."""
    needs_store: ClassVar[bool] = False
    """Does the broker need a disk of its own for it?"""
    revives: ClassVar[bool] = False
    """Does the service run in another process afterwards, whose knobs must be set anew?"""

    def __init_subclass__(cls) -> None:
        if "kind" in cls.__dict__:
            REGISTRY.add(cls.kind, cls)

    def __str__(self) -> str:
        return ":".join([self.service, self.kind, *([duration(self.duration_ms)] if self.example else [])])

    def hold_ms(self) -> int | None:
        """How long it stays in force; None: until the repetition's last cycle is done."""
        return self.duration_ms

    def ends(self, service: str) -> bool:
        """Return whether a service's process ends by it."""
        return self.revives and self.service == service

    def refusal(self, place: Place) -> str | None:
        """Why it cannot be had there, with the remedy; None where it can."""
        del place
        return None

    def in_force(self, hands: Hands, account: Account) -> AbstractContextManager[None]:
        """Bring it about, account for what is read back, put everything back on leaving, whatever happened inside."""
        raise NotImplementedError

    def check(self, place: Place) -> None:
        """Raise BadInputError where it cannot be had."""
        if why := self.refusal(place):
            raise BadInputError("FAULT", str(self), why)

    def check_length(self, at_ms: int, interval_ms: int, messages: int) -> None:
        """Raise BadInputError where the repetition leaves no room before the fault, or after it to recover in."""
        lasts_ms, room_ms = messages * interval_ms, UNBROKEN * interval_ms
        if at_ms < room_ms:
            raise BadInputError(
                "FAULT_AT_MS", str(at_ms), f"{UNBROKEN} cycles must come before the fault: at least {room_ms} here"
            )
        needed_ms = at_ms + (self.hold_ms() or 0) + self.recovery_ms + room_ms
        if lasts_ms < needed_ms:
            raise BadInputError(
                "FAULT",
                str(self),
                f"a repetition of {messages} × {interval_ms} ms ends before the stand can have recovered from a fault "
                f"at {at_ms} ms; say MESSAGES={self._messages(interval_ms)}",
            )

    def _messages(self, interval_ms: int) -> int:
        """Enough cycles with the fault in the middle, in tens."""
        half_ms = (self.hold_ms() or 0) + self.recovery_ms + UNBROKEN * interval_ms
        return -(-2 * half_ms // (10 * interval_ms)) * 10


def at_ms(interval_ms: int, messages: int, asked_ms: int | None) -> int:
    """When after the first counted cycle the fault comes: as asked, else in the middle of the repetition."""
    return messages * interval_ms // 2 if asked_ms is None else asked_ms


def duration(milliseconds: int) -> str:
    """Write a duration as `parse` reads it: `2s`, `1500ms`."""
    return f"{milliseconds}ms" if milliseconds % 1000 else f"{milliseconds // 1000}s"


def examples() -> list[str]:
    """One value of each kind and target."""
    return [
        ":".join([target, kind, *([fault.example] if fault.example else [])])
        for kind, fault in REGISTRY.all().items()
        for target in fault.targets
    ]


def parse(text: str) -> Fault | None:
    """Read `SERVICE:KIND[:DURATION]`; `none` gives None. Raises BadInputError."""
    if text == "none":
        return None
    service, _, rest = text.partition(":")
    kind, colon, lasts = rest.partition(":")
    fault = REGISTRY.all().get(kind)
    if fault is None or service not in fault.targets:
        raise BadInputError("FAULT", text, f"allowed are none, {', '.join(examples())}")
    if not fault.example:
        if colon:
            raise BadInputError("FAULT", text, f"{service}:{kind} takes no duration; say FAULT={service}:{kind}")
        return fault(service)
    return fault(service, _milliseconds(text, lasts, f"{service}:{kind}:{fault.example}"))


def _milliseconds(text: str, lasts: str, example: str) -> int:
    matched = re.fullmatch(r"([0-9]{1,7})(ms|s)", lasts)
    milliseconds = int(matched[1]) * (1000 if matched[2] == "s" else 1) if matched else 0
    if not 1 <= milliseconds <= LONGEST_MS:
        raise BadInputError("FAULT", text, f"it takes a duration from 1ms to {duration(LONGEST_MS)}, e.g. {example}")
    return milliseconds


def until(look: Callable[[], bool]) -> bool:
    """Look until it is so, at most PATIENCE_S; returns whether it was."""
    give_up_s = time.monotonic() + PATIENCE_S
    while not look():
        if time.monotonic() > give_up_s:
            return False
        time.sleep(0.005)
    return True


def report_end(hands: Hands, service: str, before: Life, account: Account) -> None:
    """Wait until a life has ended, and report how; raise StandError where it goes on."""
    if not until(lambda: hands.life(service).exit_status is not None):
        raise StandError(f"{service} did not end though it was told to; process {before.pid} goes on")
    account.evidence(f"{service} ended", f"process {before.pid}: exit status {hands.life(service).exit_status}", True)


def report_new_life(hands: Hands, service: str, before: Life, account: Account) -> None:
    """Report that a service runs in another process than before."""
    after = hands.life(service)
    anew = after.exit_status is None and (after.pid, after.began) != (before.pid, before.began)
    account.evidence(f"{service} began anew", f"process {after.pid} after {before.pid}, since {after.began}", anew)


def report_count(hands: Hands, name: str, before: int, account: Account) -> None:
    """Wait until the Pi has counted one more of something at its board, and report how many more."""
    until(lambda: hands.board_counts().get(name, 0) > before)
    more = hands.board_counts().get(name, 0) - before
    account.evidence(f"the Pi counted {name}", f"{more} more", more > 0)
