# SPDX-License-Identifier: Apache-2.0
"""`serial:garbage`: a burst of damaged lines on the wire from board to Pi, its last one without an end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from experiments.faults import Account, Fault, Hands, Place, report_count
from experiments.faults.reset import simulated_only


class Garbage(Fault):
    """SIGUSR2 to the simulated board, which babbles; the half line swallows the reply that comes next."""

    kind = "garbage"
    targets = ("serial",)

    def refusal(self, place: Place) -> str | None:
        """What a real board says is not ours to say."""
        return simulated_only(place)

    @contextmanager
    def in_force(self, hands: Hands, account: Account) -> Iterator[None]:
        """Let it babble, and see the Pi count malformed lines."""
        before = hands.board_counts().get("garbage_lines", 0)
        hands.signal("board", signal.SIGUSR2)
        yield
        account.ended()
        report_count(hands, "garbage_lines", before, account)
