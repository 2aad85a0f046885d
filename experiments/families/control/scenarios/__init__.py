# SPDX-License-Identifier: Apache-2.0
"""Scenarios of the control loop, as data: one file registers one or several. A swap replaces a field for one run."""

from __future__ import annotations

from dataclasses import dataclass, field

from experiments import families
from experiments.registry import Registry

THESIS_INTERVALS_MS = (100, 50, 20, 10)

CONTENDED = ("O.p99", "missed.share_percent")
"""Beside a noisy neighbour: the tail of the path, for that is where neighbours are felt, and what the loop misses."""
QUIET = ("T.p50", "T.p99")
RECOVERY = "recovery.p50"


@dataclass(frozen=True, kw_only=True)
class Scenario(families.Scenario):
    """Board, contention, priorities (by service, what is set on it), and what is swept."""

    device: str = "simavr"
    contention: str | None = None
    priority: dict[str, str] = field(default_factory=dict)
    intervals_ms: tuple[int, ...] = THESIS_INTERVALS_MS
    qos: tuple[int, ...] = (0,)


REGISTRY: Registry[Scenario] = Registry(__name__)
