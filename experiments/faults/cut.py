# SPDX-License-Identifier: Apache-2.0
"""`link:cut:1s`: the Pi's network interface goes down and comes up again; its connections are none the wiser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from experiments.faults import Account, Fault, Hands, Place


class Cut(Fault):
    """What is sent meanwhile is lost on the way, and TCP sends it again when it sees fit."""

    kind = "cut"
    targets = ("link",)
    example = "1s"
    recovery_ms = 3000
    helper = "link"

    def refusal(self, place: Place) -> str | None:
        """Loopback is everybody's."""
        if place.containers:
            return None
        return "plain processes share the host's loopback, which is not ours to cut; say PLACEMENT=docker"

    @contextmanager
    def in_force(self, hands: Hands, account: Account) -> Iterator[None]:
        """Take it down, see it down to the end, and bring it up."""
        try:
            _down(hands.link("cut"), account)
            yield
            _down(hands.link("read"), account)
        finally:
            up = hands.link("mend")
            account.ended()
        account.evidence("the Pi's interface is up", _read(up), up)


def _down(up: bool, account: Account) -> None:
    account.evidence("the Pi's interface is down", _read(up), not up)


def _read(up: bool) -> str:
    return "IFF_UP set" if up else "IFF_UP not set"
