# SPDX-License-Identifier: Apache-2.0
"""`confined.py RUNNER CPUS PROGRAM …`: become PROGRAM on these CPUs, ended by the kernel when process RUNNER ends.

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
if os.getppid() != int(sys.argv[1]):
    sys.exit()  # the runner was killed before it could be asked to take us along
os.sched_setaffinity(0, {int(cpu) for cpu in sys.argv[2].split(",")})
os.execvp(sys.argv[3], sys.argv[3:])  # noqa: S606
