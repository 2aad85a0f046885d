# SPDX-License-Identifier: Apache-2.0
"""Measures what the verdicts are worth: how often they cry wolf, and which true shifts they find.

Repetitions are drawn from a model with known truth: cycles correlated in time (AR(1)) with a log-normal tail, on a
level that varies from repetition to repetition. What is measured here is kept in docs/statistics.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import signal

from analysis import bootstrap, compare, inference, sequential
from analysis.compare import METRICS, SAME, SLOWER, UNKNOWN
from analysis.distribution import Distribution, Floats, Integers, of_samples
from analysis.headline import MARGIN
from analysis.inference import Sides
from analysis.quantity import Quantity
from analysis.sequential import Headline, Rule
from analysis.tables import Grid
from schema.looks import USUAL_REPETITIONS, looks

SHIFTS_US = (200, 500, 1000)
CYCLES = 100
PRECISION = 0.1
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
STATISTICS = ("avg", *QUANTILES)


@dataclass(frozen=True)
class Noise:
    """A host's temper, in µs: tail of O (spread, sigma), correlation of cycles, spread of repetitions' levels.

    `outliers` draws those levels from Student's t with 3 degrees of freedom: now and then a repetition goes astray.
    """

    name: str
    spread_us: float
    sigma: float
    between_us: float
    correlation: float = 0.3
    outliers: bool = False

    def draw(self, rng: np.random.Generator, repetitions: int, shift_us: float = 0) -> tuple[Integers, Integers]:
        """(T, R) in whole µs, each (repetitions, CYCLES); `shift_us` is added to T."""
        shape = (repetitions, CYCLES)
        innovation = rng.standard_normal(shape) * np.sqrt(1 - self.correlation**2)
        noise = signal.lfilter([1], [1, -self.correlation], innovation, axis=1)
        level = rng.standard_t(3, (repetitions, 1)) if self.outliers else rng.standard_normal((repetitions, 1))
        path = 500 + shift_us + self.between_us * level + self.spread_us * np.exp(self.sigma * noise)
        r = np.rint(4300 + 60 * rng.standard_normal(shape)).astype(np.int64)
        return r + np.rint(np.maximum(path, 50)).astype(np.int64), r


HOSTS = (
    Noise("quiet", spread_us=250, sigma=0.8, between_us=30),
    Noise("repetitions astray", spread_us=250, sigma=0.8, between_us=60, outliers=True),
    Noise("contended", spread_us=1500, sigma=1.6, between_us=200),
)


def false_alarms(noise: Noise, repetitions: int, cells: int, splits: int, seed: int = 1) -> float:
    """The share of A/A comparisons of `cells` cells with any verdict `faster` or `slower` in them."""
    rng = np.random.default_rng((seed, repetitions, cells))
    alarms = [_any_verdict([_sides(noise, rng, repetitions, 0) for _ in range(cells)]) for _ in range(splits)]
    return float(np.mean(alarms))


def power(noise: Noise, repetitions: int, shift_us: float, splits: int, seed: int = 1) -> Floats:
    """(4,): the share of comparisons that call B slower in avg, p50, p90 and p99 of T, when it is by `shift_us`."""
    rng = np.random.default_rng((seed, repetitions, int(shift_us)))
    found = [inference.differences([_sides(noise, rng, repetitions, shift_us)], (seed,))[0] for _ in range(splits)]
    return np.asarray(np.mean([own.low_us[: len(STATISTICS)] > 0 for own in found], axis=0))


@dataclass(frozen=True)
class Outcome:
    """What became of many runs with PRECISION: shares of runs, and repetitions of each arm, on average.

    `alarms` counts runs with any verdict `faster` or `slower` in any statistic, `slower` those with it in the headline.
    """

    alarms: float
    slower: float
    same: float
    repetitions: float


def sequences(noise: Noise, headline: tuple[str, str], shift_us: float, runs: int, seed: int = 1) -> Outcome:
    """Many runs of two arms, B slower by `shift_us`, each looked at as `PRECISION=10%` has it, up to 40 repetitions."""
    rng = np.random.default_rng((seed, int(shift_us)))
    rule = Rule(PRECISION, looks(USUAL_REPETITIONS))
    column = METRICS.index(headline[0]) * len(STATISTICS) + STATISTICS.index(headline[1])
    outcomes = [
        _sequence(_sides(noise, rng, rule.most, shift_us), rule, Quantity(*headline), column) for _ in range(runs)
    ]
    return Outcome(*np.mean(outcomes, axis=0))


def _sequence(sides: Sides, rule: Rule, headline: Quantity, column: int) -> tuple[bool, bool, bool, int]:
    """(any alarm, headline slower, headline the same, repetitions) of one run."""
    for look in rule.looks:
        a, b = sides.a[: look.repetitions], sides.b[: look.repetitions]
        found = inference.differences([Sides(a, b)], (1,), look.share)[0]
        low, high = found.low_us, found.high_us
        value = float(a[:, column].mean())
        verdict = compare.verdict(float(low[column]), float(high[column]), MARGIN * value)
        settled = None if verdict == UNKNOWN else verdict
        width = float(high[column] - low[column]) / 2 / value
        if sequential.decide([Headline("B", headline, settled, width)], rule, look.repetitions).stop:
            break
    return bool(np.any((low > 0) | (high < 0))), verdict == SLOWER, verdict == SAME, look.repetitions


def coverage(noise: Noise, repetitions: int, runs: int, seed: int = 1) -> Floats:
    """(4,): the share of runs whose 95 % bootstrap interval of T holds the true avg, p50, p90 and p99."""
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
    """False alarms, power and coverage for each host and number of repetitions."""
    return [_false_alarm_table(splits), _power_table(splits // 2), _coverage_table(splits // 2), sequence_table(splits)]


def _false_alarm_table(splits: int) -> Grid:
    rows = tuple(
        (noise.name, str(repetitions), *(f"{false_alarms(noise, repetitions, cells, splits):.1%}" for cells in (1, 4)))
        for noise in HOSTS
        for repetitions in (5, 10)
    )
    header = ("host", "repetitions a side", "1 cell (12 statistics)", "4 cells (48 statistics)")
    return Grid(f"False alarms: {splits} A/A comparisons each, any verdict in any statistic", header, 2, rows)


def _power_table(splits: int) -> Grid:
    rows = tuple(
        (noise.name, str(repetitions), f"{shift / 1000:g} ms", *(f"{found:.0%}" for found in rates))
        for noise in HOSTS
        for repetitions in (5, 10)
        for shift in SHIFTS_US
        for rates in [power(noise, repetitions, shift, splits)]
    )
    header = ("host", "repetitions a side", "true shift of T", *STATISTICS)
    return Grid(f"Found: share of {splits} comparisons that call B slower, by statistic of T", header, 3, rows)


def _coverage_table(runs: int) -> Grid:
    rows = tuple(
        (noise.name, str(repetitions), *(f"{held:.0%}" for held in coverage(noise, repetitions, runs)))
        for noise in HOSTS
        for repetitions in (3, 5, 10)
    )
    header = ("host", "repetitions", *STATISTICS)
    return Grid(f"Coverage: share of {runs} runs whose 95 % interval of T holds the truth", header, 2, rows)


def sequence_table(runs: int) -> Grid:
    """False alarms and expected number of repetitions with PRECISION=10%."""
    rows = tuple(
        (noise.name, Quantity(*headline).name, f"{shift / 1000:g} ms" if shift else "none", f"{own.alarms:.1%}",
         f"{own.slower:.0%}", f"{own.same:.0%}", f"{own.repetitions:.1f}")
        for noise in HOSTS
        for headline in (("T", "p50"), ("O", "p99"))
        for shift in (0, 500)
        for own in [sequences(noise, headline, shift, runs)]
    )  # fmt: skip
    header = ("host", "headline", "true shift of T", "any faster or slower", "slower", "the same", "repetitions")
    at = ", ".join(str(look.repetitions) for look in looks(USUAL_REPETITIONS))
    return Grid(
        f"PRECISION={100 * PRECISION:g}%: {runs} runs of two arms each, looked at after {at} blocks", header, 3, rows
    )


def _any_verdict(pairs: Sequence[Sides]) -> bool:
    found = inference.differences(pairs, (1,))
    return any(bool(np.any((own.low_us > 0) | (own.high_us < 0))) for own in found)


def _sides(noise: Noise, rng: np.random.Generator, repetitions: int, shift_us: float) -> Sides:
    return Sides(_by_repetition(*noise.draw(rng, repetitions)), _by_repetition(*noise.draw(rng, repetitions, shift_us)))


def _by_repetition(t: Integers, r: Integers) -> Floats:
    """(R, 12): avg, p50, p90 and p99 of T, R and O for each repetition."""
    columns = [(own.mean(axis=1), *np.quantile(own, list(QUANTILES.values()), axis=1)) for own in (t, r, t - r)]
    return np.stack([column for metric in columns for column in metric], axis=1)


def _statistics(distribution: Distribution, weights: Integers) -> Floats:
    """(B, 4): avg, p50, p90 and p99 for each of B weightings of the repetitions."""
    quantiles = [distribution.quantiles(weights, q) for q in QUANTILES.values()]
    return np.stack([distribution.means(weights), *quantiles], axis=1)
