# SPDX-License-Identifier: Apache-2.0
"""Injects the fault of one repetition while its cycles run, and keeps what was read back of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from clients.schedule import LEAD_NS
from experiments.errors import TestbedError
from experiments.faults import Evidence, Fault, Hands


@dataclass
class Injected:
    """`fault` of a repetition in bundle.json; times in ns of this machine's CLOCK_MONOTONIC, which is the client's."""

    kind: str
    requested_at_ns: int | None = None
    injected_ns: int | None = None
    """Just before it was brought about."""
    in_force_ns: int | None = None
    """It was read back: from here on every cycle met it."""
    ended_ns: int | None = None
    """What it needed was put back."""
    evidence: list[Evidence] = field(default_factory=list)
    error: str | None = None

    def record(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self)

    def problems(self) -> list[str]:
        """Return why it does not count as a fault; a fault without proof is none."""
        remedy = "see logs/, or leave this fault out"
        if self.error:
            return [f"FAULT={self.kind}: {self.error}; {remedy}"]
        failed = [each for each in self.evidence if not each.holds]
        if failed:
            return [f"FAULT={self.kind}: {each.what}: not so ({each.read}); {remedy}" for each in failed]
        return [] if self.evidence else [f"FAULT={self.kind}: nothing shows that it happened; {remedy}"]


class Injection:
    """One fault in a thread of its own, which outlives neither the repetition nor an interruption."""

    def __init__(self, fault: Fault, hands: Hands, delay_ms: int, restore: Callable[[], None]) -> None:
        """The fault comes `delay_ms` after the first cycle, warm-up or not.

        `restore` is called where a service then runs in another process: it is to be sampled, and has knobs to get.
        """
        self._fault = fault
        self._hands = hands
        self._restore = restore
        self._delay_ns = LEAD_NS + delay_ms * 1_000_000
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.done = Injected(str(fault))

    def begin(self, ready_ns: int) -> None:
        """Fix the time; `ready_ns` is when the control loop said that it begins."""
        self.done.requested_at_ns = ready_ns + self._delay_ns
        self._thread = threading.Thread(target=self._run, name="injection", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """End the fault if it is still in force, and wait until everything is put back. May be called twice."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def evidence(self, what: str, read: str, holds: bool) -> None:
        """Keep what the fault read back."""
        self.done.evidence.append(Evidence(what, read, holds, time.monotonic_ns()))

    def ended(self) -> None:
        """Keep when the fault had put back what it took."""
        self.done.ended_ns = time.monotonic_ns()

    def _run(self) -> None:
        done = self.done
        assert done.requested_at_ns is not None
        if self._over.wait(max(0, done.requested_at_ns - time.monotonic_ns()) / 1e9):
            done.error = "the repetition ended before it was due"
            return
        hold_ms = self._fault.hold_ms()
        try:
            done.injected_ns = time.monotonic_ns()
            with self._fault.in_force(self._hands, self):
                done.in_force_ns = time.monotonic_ns()
                self._over.wait(None if hold_ms is None else hold_ms / 1000)
            if self._fault.revives:
                self._restore()
        except (OSError, TestbedError) as error:
            done.error = str(error)
