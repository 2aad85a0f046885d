# SPDX-License-Identifier: Apache-2.0
"""Metrics of the control loop: T, then what its parts are. One file registers one more.

A further one is the difference of two, or what an answer tells of itself: R, and what `value` makes of a row.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from experiments.families import Metric
from experiments.registry import Registry


@dataclass(frozen=True, kw_only=True)
class FromRow(Metric):
    """A metric that is read from the control loop's row of an answered cycle, see `clients.schedule.Row`."""

    value: Callable[[list[Any]], int | None]
    """Whole µs; None where this answer does not tell."""


REGISTRY: Registry[Metric] = Registry(__name__)

T = Metric("T", "t_us", "from request to answer, at the control loop")


@functools.cache
def metrics() -> tuple[Metric, ...]:
    """Return all of them: T first, for it is the round trip; a difference after those it is made of."""
    return (T, *sorted(REGISTRY.all().values(), key=lambda metric: metric.difference is not None))
