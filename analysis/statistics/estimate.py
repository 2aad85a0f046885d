# SPDX-License-Identifier: Apache-2.0
"""A value and how sure it is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """A latency in µs, and its interval where repetitions allow one: 95 %, or `sequential.confidence`.

    `high_us` is infinite where losses cut it.
    """

    value_us: float
    low_us: float | None = None
    high_us: float | None = None


@dataclass(frozen=True)
class Interval:
    """A value and its interval, where there is one, in the unit of its quantity: µs, % or cycles."""

    value: float
    low: float | None = None
    high: float | None = None
