# SPDX-License-Identifier: Apache-2.0
"""`broker:kill`, `pi:kill`: ended without a warning, and started again at once as a restart policy would."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from experiments.faults import Account, Fault, Hands, report_end, report_new_life


class Kill(Fault):
    """SIGKILL: nothing is flushed, no goodbye is said; the kernel closes the sockets."""

    kind = "kill"
    targets = ("broker", "pi")
    revives = True
    number: ClassVar[signal.Signals] = signal.SIGKILL

    @contextmanager
    def in_force(self, hands: Hands, account: Account) -> Iterator[None]:
        """Send the signal, see the end, start again."""
        before = hands.life(self.service)
        hands.signal(self.service, self.number)
        try:
            report_end(hands, self.service, before, account)
            yield
        finally:
            hands.revive(self.service)
            account.ended()
        report_new_life(hands, self.service, before, account)
