# SPDX-License-Identifier: Apache-2.0
"""Studies of the control loop, as data: scenarios whose arms differ in one thing, all interleaved in one run."""

from __future__ import annotations

from experiments.families import Study, Swaps
from experiments.registry import Registry

REGISTRY: Registry[Study] = Registry(__name__)


def on_both(knob: str) -> Swaps:
    """Set a knob on broker and client alike."""
    return {"PRIORITY": f"broker={knob},control-loop={knob}"}
