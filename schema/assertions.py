# SPDX-License-Identifier: Apache-2.0
"""What a run must show (`ASSERT='O.p99<5ms,misses<1%'`): read before it starts, and recorded in its plan.

Every cell must show it, or with an arm in front (`fifo both:O.p99<5ms`) those of that arm of a study.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

METRICS = ("T", "R", "O", "T_intended")
"""Those of the control loop."""
RECOVERY = "recovery"
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
STATISTICS = ("avg", *PERCENTILES, "jitter")
SHARES = {"lost": "lost", "losses": "lost", "missed": "missed", "misses": "missed"}
ALIASES = {"mean": "avg", "median": "p50"}
MICROSECONDS = {"us": 1, "µs": 1, "ms": 1000, "s": 1_000_000}
FEWEST_REPETITIONS = 3
FEWEST_RECOVERIES = 6
"""Fewer repetitions give no interval to judge on."""

_FORM = re.compile(
    r"(?:(.+?)\s*:\s*)?([A-Za-z][A-Za-z0-9_]*)(?:\.([A-Za-z0-9.]+?))?\s*(<=|>=|<|>)\s*([0-9]+(?:\.[0-9]+)?)\s*(us|µs|ms|s|%|)"
)


@dataclass(frozen=True)
class Assertion:
    """`metric.statistic` must be below, or above, `limit` (in µs, % or cycles) in every cell, or those of `arm`."""

    text: str
    metric: str
    statistic: str
    below: bool
    limit: float
    arm: str | None = None

    @property
    def cycles(self) -> int:
        """The number of cycles of a cell that its statistic needs: Wilks (1941), n ≥ ln 0.05 / ln q."""
        q = PERCENTILES.get(self.statistic)
        return 1 if q is None else math.ceil(math.log(0.05) / math.log(q))

    @property
    def repetitions(self) -> int:
        """The number of repetitions that its interval needs."""
        return FEWEST_RECOVERIES if self.metric == RECOVERY else FEWEST_REPETITIONS


def parse(text: str, metrics: Sequence[str] = METRICS) -> tuple[Assertion, ...]:
    """Parse a comma-separated list of assertions on these latencies; raise `ValueError` with what is allowed."""
    return tuple(_parse(part.strip(), metrics) for part in text.split(","))


def _parse(text: str, metrics: Sequence[str]) -> Assertion:
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{text!r} is no assertion; say e.g. {metrics[0]}.p99<5ms, {metrics[0]}.avg<=8ms, misses<1%, lost.burst<3 "
            f"or ARM:{metrics[0]}.p99<5ms"
        )
    arm, name, statistic, operator, number, unit = match.groups()
    if name == RECOVERY and statistic is None:
        statistic = "p50"
    below, limit = operator.startswith("<"), float(number)
    if name in (*metrics, RECOVERY):
        statistic = ALIASES.get(statistic, statistic)
        allowed = ("p50",) if name == RECOVERY else STATISTICS
        if statistic not in allowed:
            raise ValueError(f"{text!r}: statistics of {name} with an interval are {', '.join(allowed)}")
        if unit not in MICROSECONDS:
            raise ValueError(f"{text!r}: a latency needs a unit: {', '.join(MICROSECONDS)}")
        return Assertion(text, name, statistic, below, limit * MICROSECONDS[unit], arm)
    if name not in SHARES:
        raise ValueError(f"{text!r}: allowed are {', '.join((*metrics, *SHARES, RECOVERY))}")
    wanted = {None: "%", "burst": ""}.get(statistic)
    if wanted is None or unit != wanted or (unit == "%" and limit > 100):
        raise ValueError(f"{text!r}: say {name}<1% of the cycles offered, or {name}.burst<3 in a row")
    return Assertion(text, SHARES[name], statistic or "share_percent", below, limit, arm)
