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

ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
os.sched_setaffinity(0, {int(cpu) for cpu in sys.argv[1].split(",")})
os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606
