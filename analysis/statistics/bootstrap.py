# SPDX-License-Identifier: Apache-2.0
"""Confidence intervals by resampling whole repetitions, since cycles inside one are not independent.

Resampling clusters: Davison and Hinkley (1997), "Bootstrap methods and their application", section 3.8. From five or
ten repetitions the percentiles of the replicates give far too narrow an interval, so their standard deviation is used
in Student's instead: Efron and Tibshirani (1993), "An introduction to the bootstrap", chapter 12, with the factor
√(R/(R−1)) that corrects it for few repetitions: Hesterberg (2015), "What teachers should know about the bootstrap",
The American Statistician 69(4). docs/statistics.md has the coverage as measured.
"""

import math
from functools import cache, lru_cache

import numpy as np
from scipy import special

from analysis.reading.arrays import Floats, Integers

CONFIDENCE = 0.95
RESAMPLES = 2000
MINIMUM_REPETITIONS = 3
BELOW = float(special.ndtr(-1))


@lru_cache(maxsize=32)
def resample(repetitions: int, seed: tuple[int, ...]) -> Integers:
    """Return (RESAMPLES, R): how often each repetition is drawn in R draws with replacement; the seed fixes it."""
    draws = np.random.default_rng(seed).integers(0, repetitions, size=(RESAMPLES, repetitions))
    cells = draws + repetitions * np.arange(RESAMPLES)[:, None]
    weights = np.bincount(cells.ravel(), minlength=RESAMPLES * repetitions).reshape(RESAMPLES, repetitions)
    weights.flags.writeable = False  # every statistic of a cell shares them
    return weights


def interval(
    value: Floats, replicates: Floats, repetitions: int, confidence: float = CONFIDENCE
) -> tuple[Floats, Floats]:
    """Return the interval (low, high) around `value` (…) at this confidence, from `replicates` (RESAMPLES, …)."""
    width = _factor(repetitions, confidence) * replicates.std(axis=0)
    return value - width, value + width


@cache
def _factor(repetitions: int, confidence: float) -> float:
    """Return the interval's half-width in standard deviations of the replicates."""
    t = float(special.stdtrit(repetitions - 1, (1 + confidence) / 2))
    return t * math.sqrt(repetitions / (repetitions - 1))


def positive_interval(
    value: Floats, replicates: Floats, repetitions: int, confidence: float = CONFIDENCE
) -> tuple[Floats, Floats]:
    """Return `interval` on the logarithm, as suits a latency: never below 0, and longer towards the tail.

    Where losses make some replicates infinite there is no upper limit, and the lower one follows from the distance of
    the value to the replicates' 15.87th percentile, one standard deviation of a normal distribution below its middle.
    """
    if np.isinf(replicates).any():
        spread = value / np.quantile(replicates, BELOW, axis=0, method="lower")
        return value / spread ** _factor(repetitions, confidence), np.full_like(value, np.inf)
    if np.min(replicates) <= 0:
        low, high = interval(value, replicates, repetitions, confidence)
        return np.maximum(low, 0), high
    low, high = interval(np.log(value), np.log(replicates), repetitions, confidence)
    return np.exp(low), np.exp(high)
