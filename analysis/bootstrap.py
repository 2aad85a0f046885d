"""Confidence intervals by resampling whole repetitions, since cycles inside one are not independent.

The percentile interval of Efron and Tibshirani (1993), "An Introduction to the Bootstrap", over clusters (Davison and
Hinkley 1997, section 3.8), expanded for small numbers as in Hesterberg (2015), "What teachers should know about the
bootstrap", The American Statistician 69(4), section 4.2: from R repetitions the plain interval is too narrow by the
factor √((R−1)/R) z/t, so the percentiles are moved outwards until it is as wide as Student's t says.
"""

import math

import numpy as np
from scipy import stats

from analysis.distribution import Floats, Integers

CONFIDENCE = 0.95
RESAMPLES = 4000
MINIMUM_REPETITIONS = 3


def resample(repetitions: int, seed: tuple[int, ...]) -> Integers:
    """(RESAMPLES, R): how often each repetition is drawn, R draws with replacement each; the same for the same seed."""
    draws = np.random.default_rng(seed).integers(0, repetitions, size=(RESAMPLES, repetitions))
    return np.stack([(draws == r).sum(axis=1) for r in range(repetitions)], axis=1)


def interval(replicates: Floats, repetitions: int) -> tuple[Floats, Floats]:
    """The 95 % interval over the first axis of `replicates` (RESAMPLES, …)."""
    tail = expanded_tail(repetitions)
    low, high = np.quantile(replicates, [tail, 1 - tail], axis=0)
    return low, high


def expanded_tail(repetitions: int) -> float:
    """Hesterberg's α'/2 = Φ(−√(R/(R−1)) t), with t the 97.5 % quantile of Student's t with R − 1 degrees of freedom."""
    t = stats.t.ppf((1 + CONFIDENCE) / 2, repetitions - 1)
    return float(stats.norm.cdf(-math.sqrt(repetitions / (repetitions - 1)) * t))
