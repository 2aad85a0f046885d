# SPDX-License-Identifier: Apache-2.0
"""`board:silence:1s`: the board hangs and says nothing; its port stays where it is."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from experiments.faults import Account, Fault, Hands, Place, until
from experiments.faults.freeze import report_stopped, stopped
from experiments.faults.reset import simulated_only


class Silence(Fault):
    """The simulated board's process is stopped: what the Pi writes waits in the port and is answered too late."""

    kind = "silence"
    targets = ("board",)
    example = "1s"

    def refusal(self, place: Place) -> str | None:
        """Nobody can silence a real board from here."""
        return simulated_only(place)

    @contextmanager
    def in_force(self, hands: Hands, account: Account) -> Iterator[None]:
        """Stop it, and see that it did not run meanwhile."""
        try:
            hands.signal(self.service, signal.SIGSTOP)
            until(lambda: stopped(hands, self.service))
            report_stopped(hands, self.service, account)
            before_ns = hands.tasks(self.service).run_ns
            yield
            ran_ns = hands.tasks(self.service).run_ns - before_ns
            account.evidence("the board says nothing", f"its program ran {ran_ns} ns", ran_ns == 0)
        finally:
            hands.signal(self.service, signal.SIGCONT)
            account.ended()
        until(lambda: hands.tasks(self.service).run_ns > before_ns)
        ran_ns = hands.tasks(self.service).run_ns - before_ns
        account.evidence("the board goes on", f"its program ran {ran_ns} ns", ran_ns > 0)
