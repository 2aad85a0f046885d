# SPDX-License-Identifier: Apache-2.0
"""A pseudo-terminal that stands in for a board's USB serial port."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import struct
import termios
import tty
from pathlib import Path

# Linux numbers that Python 3.11 does not name.
TIOCGPTN = 0x80045430
TIOCSPTLCK = 0x40045431
IN_CLOSE = 0x08 | 0x10
IN_OPEN = 0x20
PR_SET_TIMERSLACK = 29
_INOTIFY_EVENT_BYTES = 16  # of an event about the watched file itself, which has no name

_libc = ctypes.CDLL(None, use_errno=True)


def wait_precisely() -> None:
    """Make this process's timeouts end on time: Linux lets them end 50 us late by default."""
    _libc.prctl(PR_SET_TIMERSLACK, 1)


class Port:
    """The board's end (`master`, a descriptor to read from) and the host's (`path`)."""

    def __init__(self, ptmx: str) -> None:
        """Open the pty multiplexer `ptmx`; /dev/ptmx or that of a private devpts instance.

        Raises OSError if that is not possible.
        """
        self.master = os.open(ptmx, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        fcntl.ioctl(self.master, TIOCSPTLCK, struct.pack("i", 0))
        (number,) = struct.unpack("I", fcntl.ioctl(self.master, TIOCGPTN, bytes(4)))
        # A private instance's multiplexer lies in it, beside its slaves; /dev/ptmx stands
        # beside the folder instead. (os.ptsname() knows only the latter.)
        folder = Path("/dev/pts") if ptmx == "/dev/ptmx" else Path(ptmx).parent
        self.path = folder / str(number)
        # Kept open, so that the host may close and reopen its end.
        self._slave = os.open(self.path, os.O_RDWR | os.O_NOCTTY)
        tty.setraw(self._slave)  # else the terminal would echo our answers back to us
        os.fchmod(self._slave, 0o666)  # the host may be another user
        self._openers = 0
        self.watch = _libc.inotify_init1(os.O_NONBLOCK)
        """A descriptor, readable when somebody opened or closed the host's end."""
        if _libc.inotify_add_watch(self.watch, bytes(self.path), IN_OPEN | IN_CLOSE) < 0:
            raise OSError(ctypes.get_errno(), "cannot watch", str(self.path))

    def opened(self) -> bool:
        """Read `watch`; true when the port went from closed to open."""
        opened = False
        events = os.read(self.watch, 256 * _INOTIFY_EVENT_BYTES)
        for _, mask, _, _ in struct.iter_unpack("iIII", events):
            if mask & IN_OPEN:
                self._openers += 1
                opened = opened or self._openers == 1
            if mask & IN_CLOSE:
                self._openers -= 1
                if not self._openers:
                    # What a closed port's host did not read must not greet the next one.
                    termios.tcflush(self._slave, termios.TCIFLUSH)
        return opened

    def read(self) -> bytes:
        """Take what the host has sent."""
        return os.read(self.master, 4096)

    def write(self, data: bytes) -> int:
        """Send to the host and return how many bytes it took.

        Like USB serial without flow control: a closed port, or a host that does not read,
        loses the rest.
        """
        with contextlib.suppress(BlockingIOError):
            return os.write(self.master, data) if self._openers else 0
        return 0
