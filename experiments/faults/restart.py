# SPDX-License-Identifier: Apache-2.0
"""`broker:restart`, `pi:restart`: told to end, given the time for it, and started again."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from experiments.faults import Account, Fault, Hands, report_end, report_new_life


class Restart(Fault):
    """SIGTERM: what an upgrade or a changed configuration does to a service."""

    kind = "restart"
    targets = ("broker", "pi")
    revives = True

    @contextmanager
    def in_force(self, hands: Hands, account: Account) -> Iterator[None]:
        """Ask it to end, see the end, start again."""
        before = hands.life(self.service)
        hands.signal(self.service, signal.SIGTERM)
        try:
            report_end(hands, self.service, before, account)
            yield
        finally:
            hands.revive(self.service)
            account.ended()
        report_new_life(hands, self.service, before, account)
