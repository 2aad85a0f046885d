# SPDX-License-Identifier: Apache-2.0
"""Compares two bundles, or two parts of one: B is faster than A, slower, the same within a margin, or cannot tell.

`measures` has what is compared, `inference` judges all of it together, the headline first, and `conclusion` says what a
reader may conclude. Arms of one run are compared by the repetitions that ran side by side (`blocks`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from analysis.judging import blocks, comparability, conclusion, headline, inference, measures
from analysis.judging.conclusion import FASTER, FEWER, MORE, SAME, SLOWER, UNKNOWN, Claim
from analysis.judging.headline import Question
from analysis.judging.inference import UNTESTED, Result
from analysis.judging.measures import Measure, Side
from analysis.reading.bundle import Bundle, BundleError, Cell
from analysis.reading.family import Value
from analysis.reading.selection import Selection, pair
from analysis.statistics import cycles, recovery, sequential
from analysis.statistics.distribution import CLUSTERS
from analysis.statistics.quantity import Quantity

__all__ = ["FASTER", "FEWER", "MORE", "SAME", "SLOWER", "UNKNOWN", "Claim", "Comparison", "arms", "compare"]


@dataclass(frozen=True)
class Comparison:
    """Every claim on B against A, the conditions that differ, and caveats."""

    a: Selection
    b: Selection
    claims: tuple[Claim, ...]
    differences: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Pair:
    """A pair of cells, its measures, and the repetitions that the test may relabel, by their place (R,)."""

    cells: tuple[Cell, Cell]
    measures: tuple[Measure, ...]
    chosen: tuple[list[int], list[int]]
    repetitions: tuple[int, int]
    one_run: bool

    @property
    def left_out(self) -> int:
        """The number of repetitions that have no neighbour in the other arm."""
        return sum(self.repetitions) - sum(map(len, self.chosen))

    @property
    def testable(self) -> bool:
        """Whether there is anything to test."""
        return bool(self.measures) and min(map(len, self.chosen)) >= measures.LEAST


def compare(a: Selection, b: Selection, *, margin: float | None = None, force: bool = False) -> Comparison:
    """Judge B against A; raise `BundleError` where they are not comparable, unless `force` is set.

    Two families are never comparable. Headlines come from A's plan, and so does the margin where None is given.
    """
    comparability.require_alike(a.bundle, b.bundle)
    pairs = pair(a, b)
    if (obstacles := comparability.obstacles(a, b, pairs)) and not force:
        reasons = "; ".join(obstacles)
        raise BundleError(f"{a.text} and {b.text} are not comparable: {reasons}; --force compares them anyway")
    read = [_pair(a.bundle, b.bundle, cells) for cells in pairs]
    if not any(cell_pair.measures for cell_pair in read):
        raise BundleError(f"{a.text} and {b.text}: nothing to compare; each needs {measures.LEAST} counted repetitions")
    claims = _judged(a.bundle, b.bundle, read, _question(a.bundle, margin))
    differences = tuple(obstacles + comparability.changes(a, b, pairs))
    return Comparison(a, b, claims, differences, tuple(_notes(a, b, read)))


def arms(bundle: Bundle, margin: float | None = None) -> tuple[Claim, ...]:
    """Return the claims of `within`, without its caveats."""
    return within(bundle, margin)[0]


def within(bundle: Bundle, margin: float | None = None) -> tuple[tuple[Claim, ...], tuple[str, ...]]:
    """Judge every further arm of a bundle against the first one of the same scenario and axes' values.

    Return claims and caveats; no claims without arms. All are judged together. That they share the first arm makes the
    intervals wider than need be, if anything (Šidák 1967).
    """
    first: dict[tuple[Value, ...], Cell] = {}
    pairs = []
    for cell in bundle.cells:
        reference = first.setdefault((cell.scenario, *cell.values), cell)
        if reference is not cell:
            pairs.append((reference, cell))
    sides: dict[int, Side] = {}
    read = [_pair(bundle, bundle, cells, sides) for cells in pairs]
    return _judged(bundle, bundle, read, _question(bundle, margin)), tuple(_caveats(bundle, read))


def _question(bundle: Bundle, margin: float | None) -> Question:
    question = headline.of(bundle)
    return question if margin is None else replace(question, margin=margin)


def _pair(a: Bundle, b: Bundle, cells: tuple[Cell, Cell], known: dict[int, Side] | None = None) -> _Pair:
    """Return the pair of two cells; a side already in `known`, by cell index, is not read again."""
    known = {} if known is None else known
    side_a = (
        known.setdefault(cells[0].index, _side(a, cells[0])) if cells[0].index not in known else known[cells[0].index]
    )
    side_b = _side(b, cells[1])
    one_run = a.folder.resolve() == b.folder.resolve()
    repetitions = side_a.repetitions, side_b.repetitions
    everything = [*range(repetitions[0])], [*range(repetitions[1])]
    beside = one_run and max(repetitions) <= CLUSTERS and cells[0] != cells[1]
    chosen = _beside(a, cells) if beside else everything
    return _Pair(cells, tuple(measures.of_sides(side_a, side_b)), chosen, repetitions, beside)


def _side(bundle: Bundle, cell: Cell) -> Side:
    recoveries = recovery.of_cell(bundle, cell)
    broke = recovery.distribution(recoveries) if recoveries else None
    return measures.of_cycles(cycles.read(bundle, cell), cell.deadline_ms, broke)


def _beside(bundle: Bundle, cells: tuple[Cell, Cell]) -> tuple[list[int], list[int]]:
    """Return the places, on either side, of the repetitions that form blocks."""
    places = [{number: place for place, number in enumerate(sorted(_numbers(bundle, cell)))} for cell in cells]
    pairs = blocks.of(bundle, *cells)
    return [places[0][of_a] for of_a, _ in pairs], [places[1][of_b] for _, of_b in pairs]


def _numbers(bundle: Bundle, cell: Cell) -> list[int]:
    return [r.repetition for r in bundle.repetitions if r.counted and r.cell == cell.index]


def _judged(a: Bundle, b: Bundle, read: Sequence[_Pair], question: Question) -> tuple[Claim, ...]:
    """Return the claims of every pair, tested together."""
    tested = iter(_tested(a, b, [cell_pair for cell_pair in read if cell_pair.testable], question.headlines))
    claims = []
    for cell_pair in read:
        deadlines = cell_pair.cells[0].deadline_ms, cell_pair.cells[1].deadline_ms
        results = next(tested) if cell_pair.testable else [UNTESTED] * len(cell_pair.measures)
        fewest = min(map(len, cell_pair.chosen))
        for measure, result in zip(cell_pair.measures, results, strict=True):
            made = conclusion.claim(cell_pair.cells, measure, result, fewest, question)
            claims.append(conclusion.of_deadlines(made, *deadlines))
    return tuple(conclusion.guarded(claims))


def _tested(a: Bundle, b: Bundle, pairs: Sequence[_Pair], headlines: Sequence[Quantity]) -> list[list[Result]]:
    if not pairs:
        return []
    swap = all(cell_pair.one_run for cell_pair in pairs) and inference.blocks_suffice(
        [len(cell_pair.chosen[0]) for cell_pair in pairs]
    )
    seed = tuple(sorted(int(bundle.plan["seed"]) for bundle in (a, b)))
    sides = [measures.sides(cell_pair.measures, headlines, cell_pair.chosen) for cell_pair in pairs]
    blocked = [replace(scores, paired=swap and inference.blocks_differ(scores.a, scores.b)) for scores in sides]
    return inference.judge(blocked, seed, min(map(sequential.share, (a, b))))


def _notes(a: Selection, b: Selection, read: Sequence[_Pair]) -> Iterator[str]:
    if a.bundle.folder.resolve() != b.bundle.folder.resolve():
        yield (
            "A and B are separate runs: whatever else changed on the host between them is part of the difference; "
            "arms of one run are interleaved and share it"
        )
    for side, chosen, other in ((0, a, "B"), (1, b, "A")):
        paired = {cell_pair.cells[side].index for cell_pair in read}
        if alone := [cell.label for cell in chosen.cells if cell.index not in paired]:
            yield f"{other} has nothing to compare with {'; '.join(alone)}: left out"
    yield from _caveats(a.bundle, read)


def _caveats(bundle: Bundle, read: Sequence[_Pair]) -> Iterator[str]:
    """Yield what keeps pairs of cells from a verdict, or repetitions out of the test."""
    if not read:
        return
    if left_out := sum(cell_pair.left_out for cell_pair in read):
        yield (
            f"{left_out} repetitions ran beside none of the other arm (run again later, or refused) and have no part "
            "in the test: a host that drifts would look like a difference"
        )
    tested = [cell_pair for cell_pair in read if cell_pair.testable]
    few = len(tested) < len(read) or (tested and not _possible(tested))
    if few:
        fewest = min(min(map(len, cell_pair.chosen)) for cell_pair in read)
        yield (
            f"{fewest} repetitions are too few for any verdict on {len(read)} pairs of cells: "
            f"set REPETITIONS=10, or pick one cell with #{next((axis.name for axis in bundle.axes), 'arm')}=…"
        )


def _possible(pairs: Sequence[_Pair]) -> bool:
    sizes = [(len(cell_pair.chosen[0]), len(cell_pair.chosen[1])) for cell_pair in pairs]
    if all(cell_pair.one_run for cell_pair in pairs) and inference.blocks_suffice([of_a for of_a, _ in sizes]):
        return True
    return inference.rarest_of(sizes) <= inference.PROMISED
