# SPDX-License-Identifier: Apache-2.0
"""`confined.py CPUS PROGRAM …`: become PROGRAM on these CPUs only, ended by the kernel when the runner ends.

A program between fork and exec, because code run there by a process with threads may deadlock.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_PTRACER, _ANY = 0x59616D61, ctypes.c_ulong(-1)

_LIBC = ctypes.CDLL(None)
_LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
# Where Yama guards processes of one user from each other, the observer may still look at PROGRAM's sockets; it lasts
# beyond exec. An error means that there is no Yama.
_LIBC.prctl(_PR_SET_PTRACER, _ANY, 0, 0, 0)
os.sched_setaffinity(0, {int(cpu) for cpu in sys.argv[1].split(",")})
os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606
