# SPDX-License-Identifier: Apache-2.0
"""Compares two bundles, or two parts of one: B is faster than A, slower, the same within a margin, or cannot tell.

A statistic is taken of each repetition, since cycles inside one are not independent, and averaged over repetitions;
`inference` judges all the differences together. A verdict is read off the interval of B − A: within the margin it is
`the same`; beyond 0 `faster` or `slower`; anything else `cannot tell`.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from analysis import comparability, cycles, inference, sequential
from analysis.bundle import Bundle, BundleError, Cell
from analysis.distribution import Distribution, Floats
from analysis.headline import MARGIN
from analysis.inference import Sides
from analysis.quantity import Quantity, three_digits
from analysis.selection import Selection, pair
from analysis.statistics import PERCENTILES, supported

METRICS = ("T", "R", "O")
STATISTICS: Mapping[str, Callable[..., Floats]] = {
    "avg": Distribution.means,
    **{name: partial(Distribution.quantiles, q=PERCENTILES[name]) for name in ("p50", "p90", "p99")},
}
FASTER, SLOWER, MORE, FEWER, SAME, UNKNOWN = "faster", "slower", "more", "fewer", "the same", "cannot tell"
"""Verdicts on B: `more` and `fewer` are those on shares and bursts, where less is better."""


@dataclass(frozen=True)
class Claim:
    """What can be said of one statistic: A's and B's value, B − A with its interval, and how sure it is.

    Values, interval, margin and `detectable` are in the quantity's unit (µs, %, cycles); a side that losses cut is
    `math.inf`. The interval holds together with all others of its family. `sure` means that A and B differ at all;
    `verdict` is what a reader may conclude, and `why` the reason where that is not plain. `detectable` is the smallest
    difference that these repetitions would have shown in four of five runs, `repetitions` about how many a side would
    settle it: none where unknown or where it is settled.
    """

    cells: tuple[Cell, Cell]
    quantity: Quantity
    a: float
    b: float
    low: float
    high: float
    p: float
    sure: bool
    cliffs_delta: float
    margin: float
    verdict: str
    why: str = ""
    headline: bool = False
    detectable: float | None = None
    repetitions: int | None = None

    @property
    def metric(self) -> str:
        """T, R, O, lost or missed."""
        return self.quantity.metric

    @property
    def statistic(self) -> str:
        """`avg`, `p50`, …, `share_percent`, `burst`."""
        return self.quantity.statistic

    @property
    def difference(self) -> float:
        """B − A; infinite where one side is cut, and 0 where both are."""
        return 0.0 if self.a == self.b else self.b - self.a

    @property
    def cut(self) -> bool:
        """Whether losses cut either side."""
        return math.isinf(self.a) or math.isinf(self.b)

    @property
    def percent(self) -> tuple[float, float, float] | None:
        """(difference, low, high) in % of A; none where A is nothing or either side is cut."""
        if self.cut or not self.a or not self.quantity.is_latency:
            return None
        return 100 * self.difference / self.a, 100 * self.low / self.a, 100 * self.high / self.a

    @property
    def words(self) -> str:
        """The verdict as a reader is told it: `the same within 5 %`."""
        if self.verdict != SAME:
            return self.verdict
        if not self.quantity.is_latency:
            return f"{SAME} within {three_digits(self.margin)} {self.quantity.points}"
        return f"{SAME} within {three_digits(100 * self.margin / self.a) if self.a else '0'} %"


@dataclass(frozen=True)
class Comparison:
    """Every claim, and what a reader must know beside them: conditions that differ, and caveats."""

    a: Selection
    b: Selection
    claims: tuple[Claim, ...]
    differences: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Measured:
    """A pair of cells with its statistics' names (J,) and values by repetition."""

    cells: tuple[Cell, Cell]
    names: tuple[tuple[str, str], ...]
    sides: Sides


def compare(a: Selection, b: Selection, *, margin: float = MARGIN, force: bool = False) -> Comparison:
    """Judges B against A; raises `BundleError` where they are not comparable, unless forced."""
    pairs = pair(a, b)
    if (obstacles := comparability.obstacles(a, b, pairs)) and not force:
        reasons = "; ".join(obstacles)
        raise BundleError(f"{a.text} and {b.text} are not comparable: {reasons}; --force compares them anyway")
    measured = _measured(a.bundle, b.bundle, pairs)
    if not measured:
        raise BundleError(f"{a.text} and {b.text}: nothing to compare; each needs 2 counted repetitions with answers")
    claims = _judged(a.bundle, b.bundle, measured, margin)
    differences = tuple(obstacles + comparability.changes(a, b, pairs))
    return Comparison(a, b, claims, differences, tuple(_notes(a, b, measured)))


def arms(bundle: Bundle, margin: float = MARGIN) -> tuple[Claim, ...]:
    """Every further arm of a bundle against the first one at the same scenario, interval and QoS; none without arms.

    All are judged together. That they share the first arm makes the intervals wider than need be, if anything (Šidák
    1967).
    """
    first: dict[tuple[str, int, int], Cell] = {}
    pairs = []
    for cell in bundle.cells:
        own = first.setdefault((cell.scenario, cell.interval_ms, cell.qos), cell)
        if own is not cell and own.board == cell.board:
            pairs.append((own, cell))
    return _judged(bundle, bundle, _measured(bundle, bundle, pairs), margin)


def _measured(a: Bundle, b: Bundle, pairs: Sequence[tuple[Cell, Cell]]) -> list[_Measured]:
    return [own for cells in pairs if (own := _measure(a, b, cells)).names]


def _judged(a: Bundle, b: Bundle, measured: Sequence[_Measured], margin: float) -> tuple[Claim, ...]:
    if not measured:
        return ()
    seed = tuple(sorted(int(bundle.plan["seed"]) for bundle in (a, b)))
    found = inference.differences([own.sides for own in measured], seed, min(map(sequential.share, (a, b))))
    return tuple(claim for own, of in zip(measured, found, strict=True) for claim in _claims(own, of, margin))


def _measure(a: Bundle, b: Bundle, cells: tuple[Cell, Cell]) -> _Measured:
    """Every statistic that both sides support, for each repetition."""
    cycles_a, cycles_b = cycles.read(a, cells[0]), cycles.read(b, cells[1])
    names, columns_a, columns_b = [], [], []
    for metric in METRICS:
        of_a, of_b = cycles_a.latencies(metric), cycles_b.latencies(metric)
        if of_a is None or of_b is None or min(len(of_a.repetitions), len(of_b.repetitions)) < 2:
            continue
        for name, statistic in STATISTICS.items():
            if name not in PERCENTILES or supported(PERCENTILES[name], min(of_a.total, of_b.total)):
                names.append((metric, name))
                columns_a.append(statistic(of_a, weights=of_a.each()))
                columns_b.append(statistic(of_b, weights=of_b.each()))
    if not names:
        return _Measured(cells, (), Sides(np.empty((0, 0)), np.empty((0, 0))))
    return _Measured(cells, tuple(names), Sides(np.stack(columns_a, axis=1), np.stack(columns_b, axis=1)))


def _claims(own: _Measured, found: inference.Differences, margin: float) -> Iterator[Claim]:
    for j, (metric, statistic) in enumerate(own.names):
        a, b = own.sides.a[:, j], own.sides.b[:, j]
        low, high, limit = float(found.low_us[j]), float(found.high_us[j]), margin * abs(float(a.mean()))
        yield Claim(
            cells=own.cells,
            quantity=Quantity(metric, statistic),
            a=float(a.mean()),
            b=float(b.mean()),
            low=low,
            high=high,
            p=float(found.p[j]),
            sure=low > 0 or high < 0,
            cliffs_delta=inference.cliffs_delta(a, b),
            margin=limit,
            verdict=verdict(low, high, limit),
        )


def verdict(low: float, high: float, margin: float) -> str:
    """What an interval of B − A says, where less is better and `margin` does not matter."""
    if max(-low, high) <= margin:
        return SAME
    return FASTER if high < 0 else SLOWER if low > 0 else UNKNOWN


def _notes(a: Selection, b: Selection, measured: Sequence[_Measured]) -> Iterator[str]:
    if a.bundle.folder.resolve() != b.bundle.folder.resolve():
        yield (
            "A and B are separate runs: whatever else changed on the host between them is part of the difference; "
            "arms of one run are interleaved and share it"
        )
    if inference.rarest([own.sides for own in measured]) > inference.PROMISED:
        fewest = min(min(len(own.sides.a), len(own.sides.b)) for own in measured)
        yield (
            f"{fewest} repetitions are too few for any verdict on {len(measured)} pairs of cells: "
            "set REPETITIONS=10, or pick one cell with #interval_ms=…"
        )
