# SPDX-License-Identifier: Apache-2.0
"""Services of a stand that a test plays over their channel."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from experiments.placements import Channel


class Flooder(Channel):
    """Says `flooding` to a job and `done`, with its own account, to a stop; before either whatever `before` has."""

    def __init__(self, note: Callable[[str], None] = lambda _step: None) -> None:
        super().__init__("flooder")
        self.heard: list[Any] = []
        self.before: list[dict[str, Any]] = []
        self.accounts: list[dict[str, Any]] = [{"sent": 1000, "elapsed_s": 1.0}]
        """One for each flood; the last one for all that follow."""
        self.waited_s: list[float] = []
        self._note = note

    def write(self, data: bytes) -> None:
        """Take a job, or a stop."""
        ends = data == b"stop\n"
        self.heard.append("stop" if ends else json.loads(data))
        self._note("flood ends" if ends else "flood")
        for event in self.before:
            self._events.put(event)
        self._events.put({"event": "done"} | self.accounts[0] if ends else {"event": "flooding"})
        if ends and len(self.accounts) > 1:
            self.accounts.pop(0)

    def receive(self, timeout_s: float) -> dict[str, Any]:
        """Note how long one was ready to wait."""
        self.waited_s.append(timeout_s)
        return super().receive(timeout_s)
