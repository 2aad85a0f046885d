# SPDX-License-Identifier: Apache-2.0
"""`reaper.py`: ends the process groups that a runner told it of as soon as that runner has ended, however it did.

The kernel ends a service with its runner (`confined.py`), but not what the service forked: a stressor's workers. Reads
`+GROUP` and `-GROUP`, a line each, until its input ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys


def reap() -> None:
    """Keep account of the groups, then end those that are left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        (groups.add if line.startswith("+") else groups.discard)(int(line[1:]))
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    reap()
