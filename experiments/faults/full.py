# SPDX-License-Identifier: Apache-2.0
"""`disk:full`: nothing more fits on the small disk that the broker keeps its sessions on, until the repetition ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from experiments.faults import Account, Fault, Hands, Place


class Full(Fault):
    """The disk is a volume in memory of the stand's own; the user's is never touched."""

    kind = "full"
    targets = ("disk",)
    needs_store = True

    def hold_ms(self) -> int | None:
        """Until the last cycle is done: a disk does not empty itself."""
        return None

    def refusal(self, place: Place) -> str | None:
        """A plain process writes to the user's disk."""
        if place.containers:
            return None
        return "a disk of the broker's own, small enough to be filled, exists only in containers; say PLACEMENT=docker"

    @contextmanager
    def in_force(self, hands: Hands, account: Account) -> Iterator[None]:
        """Fill it, see it full to the end, and empty it of what filled it."""
        try:
            free = hands.disk("fill")
            account.evidence("the disk is full", f"{free} bytes free", free == 0)
            yield
        finally:
            free = hands.disk("empty")
            account.ended()
        account.evidence("the disk has room again", f"{free} bytes free", free > 0)
