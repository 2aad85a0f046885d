# SPDX-License-Identifier: Apache-2.0
"""`serial:unplug:2s`: the port vanishes under the Pi, and with it the board's power; then both come back."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from experiments.faults import Account, Fault, Hands, Place, report_count, report_end, report_new_life
from experiments.faults.reset import simulated_only


class Unplug(Fault):
    """The simulated board ends, which hangs up its pseudo-terminal, and starts anew on another."""

    kind = "unplug"
    targets = ("serial",)
    example = "2s"
    revives = True

    def refusal(self, place: Place) -> str | None:
        """A real plug takes a hand."""
        return simulated_only(place)

    @contextmanager
    def in_force(self, hands: Hands, account: Account) -> Iterator[None]:
        """End the board, see the Pi lose its port and find it again."""
        before, counts = hands.life("board"), hands.board_counts()
        hands.signal("board", signal.SIGKILL)
        try:
            report_end(hands, "board", before, account)
            yield
        finally:
            hands.revive("board")
            account.ended()
        report_new_life(hands, "board", before, account)
        for name in ("unplugged", "plugged"):
            report_count(hands, name, counts.get(name, 0), account)
