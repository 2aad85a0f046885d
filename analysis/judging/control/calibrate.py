# SPDX-License-Identifier: Apache-2.0
"""Measures what the verdicts are worth on a simulated control loop: how often they cry wolf, which shifts they find.

Repetitions are drawn from a model with known truth: cycles correlated in time (AR(1)) with a log-normal tail, on a
level that varies from repetition to repetition. What is measured here is kept in docs/statistics.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from analysis.judging import conclusion, headline, inference, measures
from analysis.judging.conclusion import SAME, SLOWER, UNKNOWN
from analysis.judging.grid import Grid
from analysis.judging.headline import Question
from analysis.judging.measures import Measure, Side
from analysis.reading import control
from analysis.reading.arrays import Floats, Integers
from analysis.reading.bundle import Cell
from analysis.reading.family import Family, Metric
from analysis.statistics import bootstrap, sequential
from analysis.statistics.cycles import Outcomes
from analysis.statistics.distribution import Distribution, of_samples
from analysis.statistics.quantity import Quantity
from analysis.statistics.sequential import Headline, Rule
from schema.looks import USUAL_REPETITIONS, looks

SHIFTS_US = (200, 500, 1000)
CYCLES = 100
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
STATISTICS = ("avg", *QUANTILES)
PRECISION = 0.1
FAMILY = Family(
    control.NAME, (), tuple(Metric(name, "", "", answered_only=name == control.BOARD) for name in control.METRICS)
)
CELL = Cell(FAMILY, 0, "1", "", (), "model", None, {}, CYCLES, timeout_ms=1000, deadline_ms=10)
SHOWN = (f"{control.REMAINDER}.p99", *(f"{control.ROUND_TRIP}.{statistic}" for statistic in STATISTICS))
CASES = (((3, 4), 1), ((4, 4), 1), ((5, 5), 1), ((10, 10), 1), ((20, 20), 1), ((5, 5), 4), ((10, 10), 4))
"""Repetitions of A and B, and cells, of 14 statistics each."""
DEADLINE_US = 10_000


@dataclass(frozen=True)
class Noise:
    """A model of a host's noise: tail of O (`spread_us`, sigma), correlation of cycles, spread of repetitions' levels.

    `outliers` draws those levels from Student's t with 3 degrees of freedom: now and then a repetition goes astray.
    """

    name: str
    spread_us: float
    sigma: float
    between_us: float
    correlation: float = 0.3
    outliers: bool = False

    def draw(self, rng: np.random.Generator, repetitions: int, shift_us: float = 0) -> tuple[Integers, Integers]:
        """Return (T, R) in whole µs, each (repetitions, CYCLES); `shift_us` is added to T."""
        shape = (repetitions, CYCLES)
        innovation = rng.standard_normal(shape) * np.sqrt(1 - self.correlation**2)
        noise = scipy.signal.lfilter([1], [1, -self.correlation], innovation, axis=1)
        level = rng.standard_t(3, (repetitions, 1)) if self.outliers else rng.standard_normal((repetitions, 1))
        path = 500 + shift_us + self.between_us * level + self.spread_us * np.exp(self.sigma * noise)
        r = np.rint(4300 + 60 * rng.standard_normal(shape)).astype(np.int64)
        return r + np.rint(np.maximum(path, 50)).astype(np.int64), r


HOSTS = (
    Noise("quiet", spread_us=250, sigma=0.8, between_us=30),
    Noise("repetitions astray", spread_us=250, sigma=0.8, between_us=60, outliers=True),
    Noise("contended", spread_us=1500, sigma=1.6, between_us=200),
)


def false_alarms(noise: Noise, sizes: tuple[int, int], cells: int, splits: int, seed: int = 1) -> float:
    """Return the share of A/A comparisons with anything sure; each is of `cells` cells, `sizes` repetitions a side."""
    rng = np.random.default_rng((seed, *sizes, cells))
    alarms = [_any_sure([_pair(noise, rng, sizes, 0) for _ in range(cells)]) for _ in range(splits)]
    return float(np.mean(alarms))


def power(noise: Noise, repetitions: int, shift_us: float, splits: int, seed: int = 1) -> dict[str, float]:
    """Return, by quantity, the share of comparisons that call B slower when T and O are longer by `shift_us`."""
    rng = np.random.default_rng((seed, repetitions, int(shift_us)))
    sure_slower: dict[str, list[bool]] = {}
    for _ in range(splits):
        pair = _pair(noise, rng, (repetitions, repetitions), shift_us)
        for measure, result in zip(
            pair, inference.judge([measures.sides(pair, headline.CONTENTION)], (seed,))[0], strict=True
        ):
            sure_slower.setdefault(str(measure.quantity), []).append(result.sure and result.t > 0)
    return {name: float(np.mean(sure)) for name, sure in sure_slower.items()}


@dataclass(frozen=True)
class Stopped:
    """Averages over many runs with PRECISION: shares of runs, and repetitions of each arm.

    `alarms` counts runs with anything sure in any statistic, `slower` those with it in the headline.
    """

    alarms: float
    slower: float
    same: float
    repetitions: float


def sequences(noise: Noise, quantity: Quantity, shift_us: float, runs: int, seed: int = 1) -> Stopped:
    """Simulate runs of two arms with `PRECISION=10%`, B slower by `shift_us`, of 40 repetitions at most."""
    rng = np.random.default_rng((seed, int(shift_us)))
    rule = Rule(PRECISION, looks(USUAL_REPETITIONS))
    outcomes = [
        _sequence((noise.draw(rng, rule.most), noise.draw(rng, rule.most, shift_us)), rule, quantity)
        for _ in range(runs)
    ]
    return Stopped(*np.mean(outcomes, axis=0))


def _sequence(
    drawn: tuple[tuple[Integers, Integers], tuple[Integers, Integers]], rule: Rule, quantity: Quantity
) -> tuple[bool, bool, bool, int]:
    """Return (any alarm, headline slower, headline the same, repetitions) of one run."""
    question = Question("", (quantity,), headline.MARGIN, recorded=True, metric=quantity.metric)
    for look in rule.looks:
        a, b = (side(t[: look.repetitions], r[: look.repetitions]) for t, r in drawn)
        pair = measures.of_sides(a, b)
        results = inference.judge([measures.sides(pair, (quantity,))], (1,), look.share)[0]
        at = next(j for j, measure in enumerate(pair) if measure.quantity == quantity)
        claim = conclusion.claim((CELL, CELL), pair[at], results[at], look.repetitions, question)
        settled = None if claim.verdict == UNKNOWN else claim.verdict
        width = (claim.high - claim.low) / 2 / claim.a
        if sequential.decide([Headline("B", quantity, settled, width)], rule, look.repetitions).stop:
            break
    return any(result.sure for result in results), claim.verdict == SLOWER, claim.verdict == SAME, look.repetitions


def coverage(noise: Noise, repetitions: int, runs: int, seed: int = 1) -> Floats:
    """Return (4,): the share of runs whose 95 % bootstrap interval of T holds the true avg, p50, p90 and p99."""
    rng = np.random.default_rng((seed, repetitions))
    population = noise.draw(rng, 20_000)[0]
    truth = np.array([population.mean(), *np.quantile(population, list(QUANTILES.values()))])
    held = []
    for _ in range(runs):
        distribution = of_samples(noise.draw(rng, repetitions)[0])
        value = _statistics(distribution, np.ones((1, repetitions), dtype=np.int64))[0]
        replicates = _statistics(distribution, bootstrap.resample(repetitions, (seed,)))
        low, high = bootstrap.positive_interval(value, replicates, repetitions)
        held.append((low <= truth) & (truth <= high))
    return np.asarray(np.mean(held, axis=0))


def tables(splits: int) -> list[Grid]:
    """Return false alarms, power and coverage for each noise model and number of repetitions."""
    return [_false_alarm_table(splits), _power_table(splits // 5), _coverage_table(splits // 2), sequence_table(splits)]


def _false_alarm_table(splits: int) -> Grid:
    rows = tuple(
        (noise.name, f"{a} against {b}", str(cells), f"{false_alarms(noise, (a, b), cells, splits):.1%}")
        for noise in HOSTS
        for (a, b), cells in CASES
    )
    header = ("host", "repetitions", "cells", "any verdict")
    return Grid(f"False alarms: {splits} A/A comparisons each, any verdict in any statistic", header, 3, rows)


def _power_table(splits: int) -> Grid:
    rows = tuple(
        (noise.name, str(repetitions), f"{shift / 1000:g} ms", *(f"{shares[name]:.0%}" for name in SHOWN))
        for noise in HOSTS
        for repetitions in (5, 10)
        for shift in SHIFTS_US
        for shares in [power(noise, repetitions, shift, splits)]
    )
    header = ("host", "repetitions a side", "true shift", *SHOWN)
    return Grid(f"Found: share of {splits} comparisons that call B slower", header, 3, rows)


def _coverage_table(runs: int) -> Grid:
    rows = tuple(
        (noise.name, str(repetitions), *(f"{held:.0%}" for held in coverage(noise, repetitions, runs)))
        for noise in HOSTS
        for repetitions in (3, 5, 10)
    )
    header = ("host", "repetitions", *STATISTICS)
    return Grid(f"Coverage: share of {runs} runs whose 95 % interval of T holds the truth", header, 2, rows)


def sequence_table(runs: int) -> Grid:
    """Return false alarms and average number of repetitions with PRECISION=10%."""
    rows = tuple(
        (noise.name, quantity.name, f"{shift / 1000:g} ms" if shift else "none", f"{stopped.alarms:.1%}",
         f"{stopped.slower:.0%}", f"{stopped.same:.0%}", f"{stopped.repetitions:.1f}")
        for noise in HOSTS
        for quantity in (Quantity(control.ROUND_TRIP, "p50"), Quantity(control.REMAINDER, "p99"))
        for shift in (0, 500)
        for stopped in [sequences(noise, quantity, shift, runs)]
    )  # fmt: skip
    header = ("host", "headline", "true shift of T", "any faster or slower", "slower", "the same", "repetitions")
    at = ", ".join(str(look.repetitions) for look in looks(USUAL_REPETITIONS))
    return Grid(
        f"PRECISION={100 * PRECISION:g}%: {runs} runs of two arms each, looked at after {at} blocks", header, 3, rows
    )


def _any_sure(pairs: Sequence[Sequence[Measure]]) -> bool:
    return any(
        result.sure
        for results in inference.judge([measures.sides(pair, headline.CONTENTION) for pair in pairs], (1,))
        for result in results
    )


def _pair(noise: Noise, rng: np.random.Generator, sizes: tuple[int, int], shift_us: float) -> list[Measure]:
    """Return the measures of two cells drawn from one noise model, B later by `shift_us`."""
    return measures.of_sides(side(*noise.draw(rng, sizes[0])), side(*noise.draw(rng, sizes[1], shift_us)))


def side(t: Integers, r: Integers) -> Side:
    """Return a side from T and R in µs, (repetitions, cycles); none is lost, T above `DEADLINE_US` misses."""
    missed = t > DEADLINE_US
    none = np.zeros(len(t), dtype=np.int64)
    bursts = np.array([_longest(row) for row in missed])
    outcomes = Outcomes(np.full(len(t), t.shape[1]), none, missed.sum(axis=1), none, bursts)
    return Side(dict(zip(FAMILY.metrics, map(of_samples, (t, r, t - r)), strict=True)), outcomes)


def _longest(flags: Integers) -> int:
    return max((len(run) for run in "".join("x" if flag else " " for flag in flags).split()), default=0)


def _statistics(distribution: Distribution, weights: Integers) -> Floats:
    """Return (B, 4): avg, p50, p90 and p99 for each of B weightings of the repetitions."""
    quantiles = [distribution.quantiles(weights, q) for q in QUANTILES.values()]
    return np.stack([distribution.means(weights), *quantiles], axis=1)
