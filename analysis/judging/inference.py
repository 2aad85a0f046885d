# SPDX-License-Identifier: Apache-2.0
"""Whether two sets of repetitions differ: a permutation test over repetitions, the headline first.

The repetition is the unit: cycles inside one share their luck. Under the null hypothesis the labels A and B mean
nothing, so every relabelling of the repetitions was as likely (Fisher 1935; Good 2005, "Permutation, parametric and
bootstrap tests of hypotheses"). Of all statistics in one family the largest studentised difference is kept for each
relabelling (Westfall and Young 1993, "Resampling-based multiple testing", single-step maxT), which bounds the chance of
*any* false alarm in the family, whatever the distribution and however the metrics hang together. The arms of a headline
are balanced: the least p of them is kept instead (minP, same source), lest a noisy arm hides what a steady one shows.
Studentising (Janssen 1997; Chung and Romano 2013) keeps the test honest where A and B vary by different amounts.

Families are tested in an order fixed beforehand: each headline at the full level as long as all before it were decided
(Maurer, Hothorn and Lehmacher 1995), then everything else at what was put aside for it, and at the full level as well
where all headlines were decided: the fallback procedure, Wiens (2003), "A fixed sequence Bonferroni procedure for
testing multiple endpoints", Pharmaceutical Statistics 2(3).

Where repetitions ran in blocks, one of A and one of B side by side, and blocks differ, labels are swapped within blocks
only (Fisher's randomised blocks), so that what drifts from block to block is no noise. Where blocks do not differ, free
relabelling of the same repetitions is as honest and finds more; which it is to be is read off the blocks without their
labels, and so cannot favour a side.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.reading.arrays import Floats, Integers

Booleans = npt.NDArray[np.bool_]

PROMISED = 0.05
LEVEL = 0.025
"""The chance of a false alarm that a headline is tested at: the least the repetitions allow where they are few. With
`REST` well below what is promised, so that a count of false alarms in a thousand comparisons keeps the promise too."""
REST = 0.015
"""What is put aside for all the others, whatever the headlines say."""
SLACK = 1.15
ALIKE = 0.3
"""The intraclass correlation from which on swapping within blocks finds more than it loses with half the freedom."""
RELABELLINGS = 5000
ROUNDING = 1e-9
"""Relabellings that are mirror images tie; sums in another order must not break the tie."""


@dataclass(frozen=True)
class Sides:
    """One pair of cells: J scores of each repetition, `a` (RA, J) and `b` (RB, J), with equal means under the null.

    `quanta` (J,) is the step in which a score can change, so that equal repetitions do not divide by 0. `families` (J,)
    is the place of each score in the fixed order: 0, 1, … for the headlines, then one more for everything else. Where
    `paired`, row i of `a` and of `b` ran side by side.
    """

    a: Floats
    b: Floats
    quanta: Floats
    families: Integers
    paired: bool = False


@dataclass(frozen=True)
class Result:
    """The test of one score: the studentised difference, its critical value, and the p adjusted for its family."""

    t: float
    critical: float
    p: float

    @property
    def sure(self) -> bool:
        """Whether A and B differ: p is at most the family's level."""
        return abs(self.t) > self.critical


UNTESTED = Result(0.0, math.inf, 1.0)


def judge(pairs: Sequence[Sides], seed: tuple[int, ...], share: float = 1) -> list[list[Result]]:
    """Test every score of every pair, jointly at level `share` × `PROMISED`; a run with looks has a share below 1."""
    rng = np.random.default_rng(seed)
    first = headline_level(pairs, share)
    shared: dict[tuple[int, int, bool], Floats] = {}
    relabelled = [_studentised(pair, _labels(pair, rng, shared, exact=len(pairs) == 1)) for pair in pairs]
    results = [[UNTESTED] * len(pair.families) for pair in pairs]
    last, waiting, decided = max(int(pair.families.max()) for pair in pairs), [], True
    for family in range(last):
        chosen = [pair.families == family for pair in pairs]
        if decided and any(mask.any() for mask in chosen):
            decided = _decide(results, relabelled, chosen, first, balanced=True)
        else:
            waiting.append(family)
    rest = min(REST * share, PROMISED * share - first) + (first if decided else 0)
    _decide(results, relabelled, [np.isin(pair.families, [*waiting, last]) for pair in pairs], rest, balanced=False)
    return results


def headline_level(pairs: Sequence[Sides], share: float = 1) -> float:
    """Return the headlines' level; random relabelling yields the rarest p somewhat more often, hence `SLACK`."""
    return min(PROMISED * share, max(LEVEL * share, SLACK * rarest(pairs)))


def rarest(pairs: Sequence[Sides]) -> float:
    """Return the smallest p that these repetitions can yield; above the promised level no verdict is possible."""
    return sum(_rarest(len(pair.a), len(pair.b), paired=pair.paired) for pair in pairs)


def rarest_of(sizes: Sequence[tuple[int, int]]) -> float:
    """Return the same for freely relabelled pairs of cells, given the number of repetitions of each, (RA, RB)."""
    return sum(_rarest(of_a, of_b, paired=False) for of_a, of_b in sizes)


def _rarest(of_a: int, of_b: int, *, paired: bool) -> float:
    """Return the smallest p: one over the relabellings, or two where the real labels have a mirror image."""
    if paired:
        return float(2 / 2**of_a)
    return (2 if of_a == of_b else 1) / math.comb(of_a + of_b, of_a)


def blocks_suffice(blocks: Sequence[int]) -> bool:
    """Return whether swapping labels within this many blocks of each pair can yield a verdict at `LEVEL`."""
    return sum(_rarest(count, count, paired=True) for count in blocks) <= LEVEL


def blocks_differ(a: Floats, b: Floats) -> bool:
    """Return whether repetitions of a block are alike: mean intraclass correlation of scores (R, J) above `ALIKE`.

    Fisher's, symmetric in the labels, so that swapping them within a block does not change it.
    """
    middle = (a.mean(axis=0) + b.mean(axis=0)) / 2
    variance = ((a - middle) ** 2 + (b - middle) ** 2).sum(axis=0) / 2
    some = variance > 0
    if not some.any():
        return False
    return bool((((a - middle) * (b - middle)).sum(axis=0)[some] / variance[some]).mean() > ALIKE)


def cliffs_delta(a: Floats, b: Floats) -> float:
    """Return P(b > a) − P(b < a) over pairs of repetitions, −1 to 1: Cliff (1993), Psychological Bulletin 114(3)."""
    return float(np.sign(b[:, None] - a[None, :]).mean())


def _labels(
    pair: Sides, rng: np.random.Generator, shared: dict[tuple[int, int, bool], Floats], *, exact: bool
) -> Floats:
    """Return (P, RA + RB), 1 where a repetition is labelled B, or (P, R) signs of blocks; row 0 has the real labels.

    All relabellings where that is feasible and the comparison has one pair; otherwise as many random ones, the real
    one among them (Phipson and Smyth 2010). Pairs of the same size draw theirs from the same ones, in another order.
    """
    key = (len(pair.a), len(pair.b), pair.paired)
    if exact:
        return _all_labels(*key) if _number(*key) <= RELABELLINGS else _random_labels(*key, rng)
    if key not in shared:
        shared[key] = _random_labels(*key, rng)
    again = shared[key]
    return np.asarray(again[np.concatenate([[0], 1 + rng.permutation(len(again) - 1)])])


def _number(of_a: int, of_b: int, paired: bool) -> int:
    return int(2**of_a) if paired else math.comb(of_a + of_b, of_b)


def _all_labels(of_a: int, of_b: int, paired: bool) -> Floats:
    if paired:
        return np.array(list(itertools.product((1.0, -1.0), repeat=of_a)))
    picks = np.array(list(itertools.combinations(range(of_a + of_b), of_b)))
    labels = np.zeros((len(picks), of_a + of_b))
    np.put_along_axis(labels, picks, 1, axis=1)
    return labels[::-1]


def _random_labels(of_a: int, of_b: int, paired: bool, rng: np.random.Generator) -> Floats:
    if paired:
        signs = rng.choice((1.0, -1.0), size=(RELABELLINGS, of_a))
        signs[0] = 1
        return signs
    real = np.concatenate([np.zeros(of_a), np.ones(of_b)])
    return np.vstack([real, rng.permuted(np.tile(real, (RELABELLINGS - 1, 1)), axis=1)])


def _studentised(pair: Sides, labels: Floats) -> Floats:
    """Return (P, J): the difference in means over its standard error, for each relabelling."""
    variance = pair.quanta**2 / 12  # of rounding: Sheppard 1898
    if pair.paired:
        return _of_blocks(pair.b - pair.a, labels, 2 * variance)
    values = np.vstack([pair.a, pair.b])
    return _of_groups(values - values.mean(axis=0), labels, variance)


def _of_blocks(differences: Floats, signs: Floats, rounding: Floats) -> Floats:
    """Return (P, J): Student's t of the blocks' differences (R, J), for each row of signs."""
    count = len(differences)
    mean = signs @ differences / count
    variance = ((differences**2).sum(axis=0) - count * mean**2) / max(count - 1, 1)
    return np.asarray(mean / np.sqrt((np.maximum(variance, 0) + rounding) / count))


def _of_groups(values: Floats, labels: Floats, rounding: Floats) -> Floats:
    """Return (P, J): Welch's t of the scores (RA + RB, J), centred first so that squares keep their precision."""
    count_b = labels.sum(axis=1, keepdims=True)
    count_a = labels.shape[1] - count_b
    sum_b, square_b = labels @ values, labels @ values**2
    sum_a, square_a = values.sum(axis=0) - sum_b, (values**2).sum(axis=0) - square_b
    variance_a = (square_a - sum_a**2 / count_a) / (count_a - 1)
    variance_b = (square_b - sum_b**2 / count_b) / (count_b - 1)
    error = (np.maximum(variance_a, 0) + rounding) / count_a
    error += (np.maximum(variance_b, 0) + rounding) / count_b
    return np.asarray((sum_b / count_b - sum_a / count_a) / np.sqrt(error))


def _decide(
    results: list[list[Result]],
    relabelled: Sequence[Floats],
    chosen: Sequence[Booleans],
    level: float,
    *,
    balanced: bool,
) -> bool:
    """Fill in the results of one family, `chosen` (J,) of each pair, and return whether all of them are sure."""
    places = [(i, j) for i, members in enumerate(chosen) for j in np.flatnonzero(members).tolist()]
    sizes = [np.abs(relabelled[i][:, j]) for i, j in places]
    if not places:
        return True
    for (i, j), (critical, p) in zip(places, _adjusted(sizes, level, balanced=balanced), strict=True):
        results[i][j] = Result(float(relabelled[i][0, j]), critical * (1 + ROUNDING), p)
    return all(results[i][j].sure for i, j in places)


def _adjusted(sizes: Sequence[Floats], level: float, *, balanced: bool) -> list[tuple[float, float]]:
    """Return, for each score's |t| (P,), the largest value that is not sure, and the adjusted p of the real labels."""
    total = len(sizes[0])
    allowed = int(level * total * (1 + ROUNDING))
    if not balanced or len(sizes) == 1:
        largest = np.sort(np.max(sizes, axis=0))
        return [(float(largest[-1 - allowed]), float(_reached(largest, size[:1])[0]) / total) for size in sizes]
    ascending = [np.sort(size) for size in sizes]
    rarest = np.sort(np.min([_reached(ordered, size) for ordered, size in zip(ascending, sizes, strict=True)], axis=0))
    # So many relabellings may reach a |t| that is sure: as many as keep the family's level, ties included.
    few = int(rarest[:allowed][rarest[:allowed] < rarest[allowed]].max(initial=0))
    p = [float(np.searchsorted(rarest, _reached(ordered, size[:1])[0], side="right")) / total
         for ordered, size in zip(ascending, sizes, strict=True)]  # fmt: skip
    return [(float(ordered[-1 - few]), adjusted) for ordered, adjusted in zip(ascending, p, strict=True)]


def _reached(ascending: Floats, size: Floats) -> Integers:
    """Return how many of `ascending` (P,) reach each |t|; mirror images tie."""
    return len(ascending) - np.searchsorted(ascending, size * (1 - ROUNDING), side="left")
