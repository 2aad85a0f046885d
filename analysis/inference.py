# SPDX-License-Identifier: Apache-2.0
"""Whether two sets of repetitions differ: a permutation test over repetitions, and intervals that agree with it.

The repetition is the unit: cycles inside one share their luck. Under the null hypothesis the labels A and B mean
nothing, so every relabelling of the repetitions was as likely (Fisher 1935; Good 2005, "Permutation, parametric and
bootstrap tests of hypotheses"). Of all differences in one comparison the largest studentised one is kept for each
relabelling (Westfall and Young 1993, "Resampling-based multiple testing", single-step maxT), which bounds the chance of
*any* false alarm in the whole comparison, whatever the distribution and however the metrics hang together. Studentising
(Janssen 1997; Chung and Romano 2013) keeps the test honest where A and B vary by different amounts.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.distribution import Floats

PROMISED = 0.05
LEVEL = 0.025
"""The chance of any false alarm aimed at: half of what is promised, so that a count of false alarms in a hundred
comparisons keeps the promise too. Where repetitions are too few for it, the least they allow."""
SLACK = 1.15
RELABELLINGS = 10_000
QUANTISATION_US2 = 1 / 12
"""Latencies are whole µs: the variance of rounding (Sheppard 1898), so that equal repetitions do not divide by 0."""
ROUNDING = 1e-9
"""Relabellings that are mirror images tie; sums in another order must not break the tie."""


@dataclass(frozen=True)
class Sides:
    """One pair of cells: J statistics in µs of each repetition, `a` (RA, J) and `b` (RB, J)."""

    a: Floats
    b: Floats


@dataclass(frozen=True)
class Differences:
    """B − A in µs for each statistic of one pair, (J,), with intervals that hold for the whole comparison together.

    `p` is adjusted for every statistic of every pair. An interval excludes 0 exactly where `p` is at most the level.
    """

    value_us: Floats
    low_us: Floats
    high_us: Floats
    p: Floats


def differences(pairs: Sequence[Sides], seed: tuple[int, ...], share: float = 1) -> list[Differences]:
    """The differences of every pair, judged together at `share` of the level: less than all where a run had looks."""
    rng = np.random.default_rng(seed)
    single = len(pairs) == 1
    largest = np.max([_studentised_maxima(pair, _labels(pair, rng, exact=single)) for pair in pairs], axis=0)
    critical = _critical(largest, level(pairs, share))
    return [_judge(pair, largest, critical) for pair in pairs]


def cliffs_delta(a: Floats, b: Floats) -> float:
    """P(b > a) − P(b < a) over pairs of repetitions, from −1 to 1: Cliff (1993), Psychological Bulletin 114(3)."""
    return float(np.sign(b[:, None] - a[None, :]).mean())


def level(pairs: Sequence[Sides], share: float = 1) -> float:
    """The level that repetitions allow; `SLACK` because of random relabellings the rarest come somewhat more often."""
    return min(PROMISED * share, max(LEVEL * share, SLACK * rarest(pairs)))


def rarest(pairs: Sequence[Sides]) -> float:
    """The smallest p that these repetitions can yield; no verdict is possible where it exceeds the promised level.

    Only the real labels and their mirror image are as extreme as can be, in any of the pairs: Σ 2 / C(RA+RB, RA).
    """
    return sum(2 / math.comb(len(pair.a) + len(pair.b), len(pair.a)) for pair in pairs)


def _labels(pair: Sides, rng: np.random.Generator, *, exact: bool) -> Floats:
    """(P, RA + RB): 1 where a repetition is called B. The first row is how it really was.

    All relabellings where that is feasible and the comparison has one pair; otherwise as many random ones, the real
    one among them (Phipson and Smyth 2010).
    """
    total, chosen = len(pair.a) + len(pair.b), len(pair.b)
    real = np.concatenate([np.zeros(len(pair.a)), np.ones(chosen)])
    if exact and math.comb(total, chosen) <= RELABELLINGS:
        picks = np.array(list(itertools.combinations(range(total), chosen)))
        labels = np.zeros((len(picks), total))
        np.put_along_axis(labels, picks, 1, axis=1)
        return labels[::-1]
    random = rng.permuted(np.tile(real, (RELABELLINGS - 1, 1)), axis=1)
    return np.vstack([real, random])


def _studentised_maxima(pair: Sides, labels: Floats) -> Floats:
    """(P,): the largest |t| over the statistics, for each relabelling."""
    difference, error = _difference(_centred(pair), labels)
    return np.asarray(np.max(np.abs(difference) / error, axis=1))


def _centred(pair: Sides) -> Floats:
    """(RA + RB, J): less the common mean, lest squares swallow the differences."""
    values = np.vstack([pair.a, pair.b])
    return np.asarray(values - values.mean(axis=0))


def _difference(values: Floats, labels: Floats) -> tuple[Floats, Floats]:
    """(P, J) each: the difference of means and Welch's standard error of it, for each relabelling."""
    count_b = labels.sum(axis=1, keepdims=True)
    count_a = labels.shape[1] - count_b
    sum_b, square_b = labels @ values, labels @ values**2
    sum_a, square_a = values.sum(axis=0) - sum_b, (values**2).sum(axis=0) - square_b
    variance_a = (square_a - sum_a**2 / count_a) / (count_a - 1)
    variance_b = (square_b - sum_b**2 / count_b) / (count_b - 1)
    error = (np.maximum(variance_a, 0) + QUANTISATION_US2) / count_a
    error += (np.maximum(variance_b, 0) + QUANTISATION_US2) / count_b
    return sum_b / count_b - sum_a / count_a, np.sqrt(error)


def _critical(largest: Floats, share: float) -> float:
    """The smallest value such that a |t| beyond it is reached by at most `share` of `largest` (P,)."""
    allowed = int(share * len(largest) * (1 + ROUNDING))
    return float(np.sort(largest)[::-1][allowed]) * (1 + ROUNDING)


def _judge(pair: Sides, largest: Floats, critical: float) -> Differences:
    real = np.concatenate([np.zeros((1, len(pair.a))), np.ones((1, len(pair.b)))], axis=1)
    difference, error = (found[0] for found in _difference(_centred(pair), real))
    t = np.abs(difference) / error
    p = (largest[None, :] >= t[:, None] * (1 - ROUNDING)).mean(axis=1)
    return Differences(difference, difference - critical * error, difference + critical * error, p)
