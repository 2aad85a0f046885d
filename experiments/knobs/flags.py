# SPDX-License-Identifier: Apache-2.0
"""`flags`: what the thesis gave its containers. They permit a real-time policy; nothing asks for one."""

from __future__ import annotations

from typing import Any

from experiments.knobs.scheduling import Scheduling

NOTICE = "flags permit real-time scheduling and apply nothing: every thread reads SCHED_OTHER"


class Flags(Scheduling):
    """`--ulimit rtprio=90 --cap-add=sys_nice`, as published."""

    kind = "flags"
    containers_only = True

    def check(self) -> None:
        """It has no argument."""
        if self.argument:
            raise self.bad("flags takes no value; fifo:90 really applies a priority")

    def compose(self) -> dict[str, Any]:
        """The published flags; the stand leaves the ulimit out where the engine may not set it."""
        return {"cap_add": ["SYS_NICE"], "ulimits": {"rtprio": 90}}
