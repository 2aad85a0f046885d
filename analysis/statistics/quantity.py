# SPDX-License-Identifier: Apache-2.0
"""What a number is about: a statistic of a metric, its unit, and its wording for readers.

Latencies and the recovery time are in µs, shares of cycles (lost, missed) in %, bursts in
cycles. A lost cycle has an infinite latency: a quantile that losses cut is `math.inf`, and is told as "lost". So has a
loop that never recovered, and its recovery time is told as "never".
"""

import math
from dataclasses import dataclass
from typing import Self

SHARES = {"lost": "lost cycles", "missed": "missed deadlines"}
"""The metrics that are no latency, and their names."""
RECOVERY = "recovery"
"""The metric that has one value a repetition, and no cycles: the time from a fault until the loop answers again."""
OF_ANSWERED = frozenset({"min", "avg", "max", "jitter"})
"""Statistics that only answered cycles can have; of some metrics every statistic is one (`Metric.answered_only`)."""
OF_SHARES = {"share_percent": "share", "burst": "longest burst", "longest_burst": "longest burst of any repetition"}
TWO_DIGITS = 99.5
"""Above it, two digits would say 100 of what is less."""
NAMES = {"avg": "mean", "p50": "median"}


@dataclass(frozen=True)
class Quantity:
    """A statistic of a metric: `p99` of a latency, `missed.share_percent`, `lost.burst`, `recovery.p50`."""

    metric: str
    statistic: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the short form, METRIC.STATISTIC, or `lost`, `missed` (shares), `recovery`; raise `ValueError` else."""
        metric, _, statistic = text.partition(".")
        if not statistic:
            statistic = "share_percent" if metric in SHARES else "p50" if metric == RECOVERY else ""
        if not metric or not statistic:
            raise ValueError(f"{text!r} is no statistic of a metric, such as missed.share_percent")
        return cls(metric, statistic)

    def __str__(self) -> str:
        """The short form, as bundle.json and the command line have it."""
        return f"{self.metric}.{self.statistic}"

    @property
    def is_time(self) -> bool:
        """Whether it is in µs."""
        return self.metric not in SHARES

    @property
    def is_latency(self) -> bool:
        """Whether it is a time that each cycle takes, so that losses may flatter it."""
        return self.is_time and self.metric != RECOVERY

    @property
    def of_answered(self) -> bool:
        """Whether it leaves lost cycles out, whatever the metric, so that a loss can flatter it."""
        return self.is_latency and self.statistic in OF_ANSWERED

    @property
    def name(self) -> str:
        """Its name for readers: `median of …` a latency, `share of missed deadlines`."""
        if self.is_time:
            statistic = NAMES.get(self.statistic, self.statistic)
            return f"{statistic} of {self.metric}" if self.is_latency else f"{statistic} recovery time"
        return f"{OF_SHARES[self.statistic]} of {SHARES[self.metric]}"

    @property
    def counted(self) -> str:
        """What it counts: `missed deadlines`, `lost cycles in a row`."""
        return SHARES[self.metric] + ("" if self.statistic == "share_percent" else " in a row")

    @property
    def column(self) -> str:
        """The statistic as a column of a table, with its unit where that is not ms."""
        return {"share_percent": "share, %", "burst": "burst"}.get(self.statistic, self.statistic)

    @property
    def unit(self) -> str:
        """The unit that `text` uses."""
        return "ms" if self.is_time else "%" if self.statistic == "share_percent" else "in a row"

    @property
    def points(self) -> str:
        """The unit of a difference: points for a share."""
        return "points" if self.unit == "%" else self.unit

    def text(self, value: float, *, signed: bool = False) -> str:
        """Return a value (µs, %, cycles) with its unit, to three digits."""
        figure = self.figure(value, signed=signed)
        return figure if math.isinf(value) else f"{figure} {self.unit}"

    def figure(self, value: float, *, signed: bool = False) -> str:
        """Return the same without its unit, for a table whose `column` names it."""
        if math.isinf(value):
            return "lost" if self.is_latency else "never" if self.is_time else "unknown"
        shown = value / 1000 if self.is_time else value
        return f"{'+' if signed and value > 0 else ''}{three_digits(shown)}"

    def interval(self, low: float, high: float) -> str:
        """Return the bounds of a difference with their unit: `[−0.3, 1.2] ms`."""
        return f"{self.bounds(low, high)} {self.unit if self.is_time else self.points}"

    def bounds(self, low: float, high: float) -> str:
        """Return the bounds of an interval, to follow a value that names the unit: `[5.9, 6.2]`."""
        scale = 1000 if self.is_time else 1
        return f"[{three_digits(low / scale)}, {three_digits(high / scale)}]"


def plural(count: int, noun: str) -> str:
    """Return count and noun: `1 repetition`, `1,200 repetitions`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def percentage(count: float, offered: float) -> str:
    """Return a share to two digits, `0.33 %`, `12 %`; 0 % and 100 % only for exactly none and all."""
    value = 100 * count / offered
    return f"{value:.2g} %" if value < TWO_DIGITS else f"{math.floor(value)} %"


def three_digits(value: float) -> str:
    """Return the value to three significant digits at most."""
    if not math.isfinite(value):
        return "−∞" if value < 0 else "∞"
    if value == 0:
        return "0"
    sign, size = ("−" if value < 0 else ""), abs(value)
    return f"{sign}{size:.{min(max(2 - math.floor(math.log10(size)), 0), 4)}f}"
