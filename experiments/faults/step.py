# SPDX-License-Identifier: Apache-2.0
"""`clock:step:3600s`: the host's time of day jumps ahead, and back when the repetition has ended.

Run as a program, this file is what sets the clock: it steps it, waits until its standard input ends, and puts it back,
however whoever holds the other end has ended. It heeds no signal that can be ignored.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from experiments.errors import StandError
from experiments.faults import Account, Fault, Hands, Place

_ROOT = Path(__file__).parents[2]
_CAP_SYS_TIME = 25
_ROUNDING_NS = 50_000_000
"""Between reading a clock and setting it, on a host that is busy."""


class Step(Fault):
    """A late NTP step, a dead battery, daylight saving done wrong: whatever counts in time of day sees it."""

    kind = "step"
    targets = ("clock",)
    of_the_host = True
    example = "3600s"

    def hold_ms(self) -> int | None:
        """Until the last cycle is done; the duration is how far it jumps."""
        return None

    def refusal(self, place: Place) -> str | None:
        """Only who may set the clock can step it; containers have the host's."""
        del place
        if may_set_clock():
            return None
        return "setting this host's clock takes CAP_SYS_TIME; run as root, or leave this fault out"

    @contextmanager
    def in_force(self, hands: Hands, account: Account) -> Iterator[None]:
        """Step the clock by a process that puts it back whatever becomes of us."""
        del hands
        before_ns = offset_ns()
        with subprocess.Popen(
            [sys.executable, "-m", __name__, str(self.duration_ms)],
            cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        ) as guard:  # fmt: skip
            assert guard.stdout is not None
            if not guard.stdout.readline():
                raise StandError("the clock could not be set; `make doctor` tells what this host can do")
            self._report_offset(before_ns, self.duration_ms, account)
            yield
            self._report_offset(before_ns, self.duration_ms, account)
            guard.communicate()  # ends its input, and waits for its end
        account.ended()
        self._report_offset(before_ns, 0, account)

    def _report_offset(self, before_ns: int, step_ms: int, account: Account) -> None:
        ahead_ns = offset_ns() - before_ns
        holds = abs(ahead_ns - step_ms * 1_000_000) < _ROUNDING_NS
        account.evidence("time of day against CLOCK_MONOTONIC", f"{ahead_ns / 1e6:+.1f} ms", holds)


def may_set_clock() -> bool:
    """Whether this process has CAP_SYS_TIME."""
    status = Path("/proc/self/status")
    if not status.exists():
        return False
    effective = next(line for line in status.read_text().splitlines() if line.startswith("CapEff:")).split()[1]
    return bool(int(effective, 16) >> _CAP_SYS_TIME & 1)


def offset_ns() -> int:
    """The time of day less CLOCK_MONOTONIC: constant, but for what adjusts the clock."""
    return time.time_ns() - time.monotonic_ns()


def guard(step_ms: int) -> None:
    """Step the clock, wait for the end of standard input, put it back."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    before_ns = offset_ns()
    time.clock_settime_ns(time.CLOCK_REALTIME, time.monotonic_ns() + before_ns + step_ms * 1_000_000)
    try:
        print("stepped", flush=True)
        sys.stdin.read()
    finally:
        time.clock_settime_ns(time.CLOCK_REALTIME, time.monotonic_ns() + before_ns)


if __name__ == "__main__":
    guard(int(sys.argv[1]))
