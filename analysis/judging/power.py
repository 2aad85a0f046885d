# SPDX-License-Identifier: Apache-2.0
"""What a comparison finds on a host as it is: a bundle's own repetitions, drawn anew, with differences planted.

Simulated hosts are kind; what real repetitions vary by decides what can be found. Both sides are drawn, with
replacement and whole, from one cell's counted repetitions, so that nothing differs; then a known difference is planted
in side B. What the test then finds of it is its power here, and what it finds without one, its false alarms.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from analysis.judging import headline, inference, measures
from analysis.judging.grid import Grid
from analysis.reading import labels
from analysis.reading.arrays import Integers
from analysis.reading.bundle import Bundle, BundleError, Cell
from analysis.reading.family import Family
from analysis.statistics import cycles
from analysis.statistics.cycles import MISSING, Cycles
from analysis.statistics.quantity import Quantity

SIZES = (10, 20)
FEWEST = 5
"""Repetitions of a cell below which drawing them anew says nothing."""
SHOWN = ("p50", "p90", "p99")
"""Statistics of the round trip that have a column whatever the headlines are."""
SHIFTS_US = (200, 500, 1000)
TAIL_SHARE, TAIL_US = 0.01, 5000
LOST_SHARE = 0.02
"""Of cycles: twice what cuts p99."""

Plant = Callable[[np.random.Generator, int], tuple[Integers, Integers]]
"""For so many cycles: by how much each is later (µs), and whether it is lost."""


@dataclass(frozen=True)
class Planted:
    """A difference planted in side B, under the name that the table gives it."""

    name: str
    plant: Plant


def _shift(by_us: int) -> Plant:
    return lambda _, n: (np.full(n, by_us), np.zeros(n, dtype=np.int64))


def _tail(rng: np.random.Generator, n: int) -> tuple[Integers, Integers]:
    return TAIL_US * (rng.random(n) < TAIL_SHARE), np.zeros(n, dtype=np.int64)


def _losses(rng: np.random.Generator, n: int) -> tuple[Integers, Integers]:
    return np.zeros(n, dtype=np.int64), (rng.random(n) < LOST_SHARE).astype(np.int64)


def differences(family: Family) -> tuple[Planted, ...]:
    """Return the differences to plant in side B."""
    return (
        Planted("nothing", _shift(0)),
        *(Planted(f"{family.round_trip} + {by_us / 1000:g} ms", _shift(by_us)) for by_us in SHIFTS_US),
        Planted(f"{TAIL_SHARE:.0%} of cycles + {TAIL_US / 1000:g} ms", _tail),
        Planted(f"{LOST_SHARE:.0%} of cycles lost", _losses),
    )


@dataclass(frozen=True)
class Source:
    """A cell's cycles to draw from, and the deadline and headlines to judge by."""

    cycles: Cycles
    deadline_ms: int
    headlines: tuple[Quantity, ...]


def shown(headlines: tuple[Quantity, ...], family: Family) -> tuple[Quantity, ...]:
    """Return the quantities that have a column: the headlines, in the order tested, then the usual ones."""
    usual = (*(Quantity(family.round_trip, name) for name in SHOWN), Quantity("lost", "share_percent"))
    return tuple(dict.fromkeys((*headlines, *usual)))


def table(bundle: Bundle, draws: int) -> Grid:
    """Return how often each planted difference is found in each cell; raise `BundleError` for too few repetitions."""
    names = labels.of_cells(bundle.cells)
    rows = [row for cell in bundle.cells for row in _rows(bundle, cell, names[cell.index], draws)]
    if not rows:
        raise BundleError(f"{bundle.folder}: no cell has {FEWEST} counted repetitions: too few to draw from")
    columns = shown(headline.of(bundle).headlines, bundle.family)
    header = (
        "cell",
        "repetitions",
        "drawn a side",
        "planted in B",
        *(quantity.name for quantity in columns),
        "anything",
    )
    counted = [r for r in bundle.repetitions if r.counted]
    noisy = sum(r.validity == "noisy" for r in counted)
    title = f"Found of {draws} comparisons: {bundle.name}, {noisy} of {len(counted)} repetitions noisy"
    return Grid(title, header, 4, tuple(rows))


def _rows(bundle: Bundle, cell: Cell, name: str, draws: int) -> list[tuple[str, ...]]:
    cell_cycles = cycles.read(bundle, cell)
    number = len(np.unique(cell_cycles.repetition))
    if number < FEWEST:
        return []
    source = Source(cell_cycles, cell.deadline_ms, headline.of(bundle).headlines)
    rows = []
    for size in SIZES:
        for place, planted in enumerate(differences(bundle.family)):
            rng = np.random.default_rng((int(bundle.plan["seed"]), cell.index, size, place))
            shares = power_of(source, planted, size, draws, rng)
            rows.append((name, str(number), str(size), planted.name, *(f"{share:.0%}" for share in shares)))
    return rows


def power_of(source: Source, planted: Planted, size: int, draws: int, rng: np.random.Generator) -> list[float]:
    """Return the share of comparisons that are sure of a difference in each of `shown`, and in anything at all."""
    detections, columns = [], shown(source.headlines, source.cycles.family)
    for _ in range(draws):
        a, b = drawn(source.cycles, size, rng), drawn(source.cycles, size, rng)
        later, lost = planted.plant(rng, len(b.repetition))
        changed = _with(b, later, lost.astype(bool))
        pair = measures.of_sides(*(measures.of_cycles(side, source.deadline_ms) for side in (a, changed)))
        results = inference.judge([measures.sides(pair, source.headlines)], (1,))[0]
        sure = {measure.quantity: result.sure for measure, result in zip(pair, results, strict=True)}
        detections.append([*(sure.get(quantity, False) for quantity in columns), any(sure.values())])
    return [float(share) for share in np.mean(detections, axis=0)]


def drawn(original: Cycles, size: int, rng: np.random.Generator) -> Cycles:
    """Return `size` whole repetitions drawn with replacement, numbered from 1."""
    parts = np.split(np.arange(len(original.repetition)), np.flatnonzero(np.diff(original.repetition)) + 1)
    picked = [parts[place] for place in rng.integers(0, len(parts), size)]
    at = np.concatenate(picked)
    return replace(
        original,
        repetition=np.repeat(np.arange(1, size + 1), [len(part) for part in picked]),
        received_ns=original.received_ns[at],
        latencies_us={metric: values[at] for metric, values in original.latencies_us.items()},
    )


def _with(original: Cycles, later_us: Integers, lost: npt.NDArray[np.bool_]) -> Cycles:
    """Return the cycles with `later_us` (N,) added to metrics that contain the round trip, `lost` ones unanswered."""
    shifted = times(original.family)
    latencies = {
        metric: np.where(lost | (values == MISSING), MISSING, values + shifted[metric] * later_us)
        for metric, values in original.latencies_us.items()
    }
    return replace(original, latencies_us=latencies)


def times(family: Family) -> dict[str, int]:
    """Return, by metric, how often it contains the round trip; a metric A − B has A's number less B's."""
    counts = {family.round_trip: 1, family.intended: 1}
    for metric in family.metrics[1:]:
        whole, part = metric.difference or (None, None)
        counts[metric.name] = counts[whole] - counts[part] if whole and part else 0
    return counts
