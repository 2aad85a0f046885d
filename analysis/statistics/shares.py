# SPDX-License-Identifier: Apache-2.0
"""How sure a share of cycles is: lost, missed, or beyond a latency.

Repetitions are the clusters: Korn and Graubard (1998), "Confidence intervals for proportions with small expected number
of positive counts estimated from survey data", Survey Methodology 24(2). Clopper and Pearson's exact limits (1934) for
as many independent cycles as the clustered ones are worth, with Student's in place of the normal for few repetitions.
Hence 0 of n has an upper limit, and a share that hangs on one repetition a wide one.
"""

from scipy import special

from analysis.reading.arrays import Integers


def interval(events: Integers, offered: Integers, confidence: float) -> tuple[float, float]:
    """Return the limits of the share that `events` (R,) are of `offered` (R,), both by repetition, R ≥ 2."""
    return limits(float(events.sum() / offered.sum()), events, offered, confidence)


def limits(share: float, events: Integers, offered: Integers, confidence: float) -> tuple[float, float]:
    """Return the limits about a `share` that is known more exactly than by counting whole events."""
    effective = effective_size(events, offered, confidence)
    least, tail = share * effective, (1 - confidence) / 2
    low = float(special.betaincinv(least, effective - least + 1, tail)) if least > 0 else 0.0
    high = float(special.betaincinv(least + 1, effective - least, 1 - tail)) if least < effective else 1.0
    return low, high


def effective_size(events: Integers, offered: Integers, confidence: float) -> float:
    """Return the effective sample size: how many independent cycles are worth as much, at most those offered."""
    total, repetitions = int(offered.sum()), len(offered)
    share = events.sum() / total
    residual = events - share * offered
    variance = repetitions / (repetitions - 1) * float(residual @ residual) / total**2
    independent = min(share * (1 - share) / variance, total) if variance > 0 and 0 < share < 1 else total
    of_cycles, of_repetitions = special.stdtrit([total - 1, repetitions - 1], (1 + confidence) / 2)
    return float(independent * (of_cycles / of_repetitions) ** 2)
