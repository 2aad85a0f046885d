# SPDX-License-Identifier: Apache-2.0
"""How long an event loop stood still: frozen, starved, or suspended with its host."""

import asyncio
import time

LOOK_S = 0.05
NOTICED_S = 0.25
"""A busy loop is late by less than that; a process that somebody stopped, by more."""


class Stalls:
    """`total_s` of standing still; counts while `watch` runs."""

    def __init__(self) -> None:
        self.total_s = 0.0
        self._looked_s = time.monotonic()

    def begin(self) -> None:
        """Count from here."""
        self.total_s, self._looked_s = 0.0, time.monotonic()

    def look(self) -> None:
        """Count how much too late this look is."""
        now_s = time.monotonic()
        late_s = now_s - self._looked_s - LOOK_S
        self.total_s += late_s if late_s > NOTICED_S else 0.0
        self._looked_s = now_s

    async def watch(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.look()
