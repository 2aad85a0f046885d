# SPDX-License-Identifier: Apache-2.0
"""`broker:restart`, `pi:restart`: told to end, given the time for it, and started again."""

from __future__ import annotations

import signal

from experiments.faults.kill import Kill


class Restart(Kill):
    """SIGTERM: what an upgrade or a changed configuration does to a service."""

    kind = "restart"
    number = signal.SIGTERM
