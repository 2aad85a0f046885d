# SPDX-License-Identifier: Apache-2.0
"""`broker:freeze:2s`, `pi:freeze:1s`: stopped where it stands, its connections open, then let go on."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from experiments.faults import Account, Fault, Hands, until


class Freeze(Fault):
    """SIGSTOP: as a stalled disk, a swapping host or a paused virtual machine looks from outside."""

    kind = "freeze"
    targets = ("broker", "pi")
    example = "2s"

    @contextmanager
    def in_force(self, hands: Hands, account: Account) -> Iterator[None]:
        """Stop every thread, and see that they stood still from start to end."""
        try:
            hands.signal(self.service, signal.SIGSTOP)
            until(lambda: stopped(hands, self.service))
            report_stopped(hands, self.service, account)
            yield
            report_stopped(hands, self.service, account)
        finally:
            hands.signal(self.service, signal.SIGCONT)
            account.ended()
        until(lambda: not stopped(hands, self.service))
        states = hands.tasks(self.service).states
        account.evidence(f"{self.service} goes on", f"threads {states}", "T" not in states)


def stopped(hands: Hands, service: str) -> bool:
    """Whether every thread of a service is stopped."""
    return set(hands.tasks(service).states) == {"T"}


def report_stopped(hands: Hands, service: str, account: Account) -> None:
    """Report the states of a service's threads."""
    states = hands.tasks(service).states
    account.evidence(f"{service} stands still", f"threads {states}", set(states) == {"T"})
