# SPDX-License-Identifier: Apache-2.0
"""The services of the control loop's stand."""

from experiments.roles import Role

BROKER = Role("broker", detailed=True, retransmits=True, connects=True)
DRIVER = Role("control-loop", takes_jobs=True, detailed=True, connects=True)
PI = Role("pi", side="pi", detailed=True, connects=True)
BOARD = Role("board", side="pi", detailed=True)
CAPTURE = Role("capture", side="pi", takes_jobs=True, lasting=False, settable=False)
"""Sees messages pass the broker, in `make path-N`."""
LINK = Role("link", side="pi", takes_jobs=True, settable=False)
"""Cuts the Pi's network, for a fault that does."""

ROLES = (BROKER, DRIVER, PI, BOARD, CAPTURE, LINK)
