# SPDX-License-Identifier: Apache-2.0
"""`nice:N` (-20 to 19): a larger or smaller share for ordinary tasks; see nice(2)."""

from __future__ import annotations

from typing import Any

from experiments.knobs.scheduling import Scheduling, describe


class Nice(Scheduling):
    """Works within a control group only: between groups, weight decides."""

    kind = "nice"

    def check(self) -> None:
        """As setpriority(2) takes it."""
        self.whole(-20, 19)

    def settings(self) -> list[tuple[str, Any]]:
        """Set from outside."""
        return [("nice", int(self.argument))]

    def expected(self) -> Any:
        """Every thread at this nice value."""
        return describe("SCHED_OTHER", 0, int(self.argument))
