# SPDX-License-Identifier: Apache-2.0
"""`board:reset`: the board starts anew, as a Mega whose button is pressed: two silent seconds, then its banner."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from experiments.faults import Account, Fault, Hands, Place, report_count


class Reset(Fault):
    """SIGHUP to the simulated board, which resets the AVR and runs through the bootloader's pause."""

    kind = "reset"
    targets = ("board",)
    recovery_ms = 4000

    def refusal(self, place: Place) -> str | None:
        """A real board has a button."""
        return simulated_only(place)

    @contextmanager
    def in_force(self, hands: Hands, account: Account) -> Iterator[None]:
        """Reset it, and see its banner reach the Pi."""
        before = hands.board_counts().get("boots", 0)
        hands.signal(self.service, signal.SIGHUP)
        yield
        account.ended()
        report_count(hands, "boots", before, account)


def simulated_only(place: Place) -> str | None:
    """Why a fault of the simulated boards cannot be had there."""
    if place.simulated_board:
        return None
    return "here no program is the board; say DEVICE=simavr or DEVICE=model"
