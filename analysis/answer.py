# SPDX-License-Identifier: Apache-2.0
"""The answer of a run: the question it was made for, what its headline says, how sure that is, and what to read beside.

Where arms were compared, each further arm is an `Effect` against the first one under the same conditions; a run without
arms answers with the headline's value in each cell (`Level`). Page, terminal and gate read this and compute nothing.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analysis import compare, headline, labels, losses
from analysis.bundle import Bundle, Cell
from analysis.compare import FASTER, FEWER, MORE, SAME, SLOWER, UNKNOWN, Claim
from analysis.headline import Question
from analysis.losses import Losses
from analysis.quantity import Quantity
from analysis.statistics import CellSummary, Estimate

BETTER = (FASTER, FEWER)
ORDER = {FASTER: 0, FEWER: 0, SAME: 1, UNKNOWN: 2, MORE: 3, SLOWER: 3}
STILL, MOVED, UNSURE = (
    "R did not move",
    "the board was disturbed, and the verdict with it",
    "cannot tell whether R moved",
)


@dataclass(frozen=True)
class Control:
    """R where nothing that was varied touches the Pi: what `verdict` says of it, by `claim`, its most telling claim."""

    verdict: str
    claim: Claim

    @property
    def text(self) -> str:
        """As a reader is told it: `R did not move (p99 of R ± 0.2 ms)`."""
        reach = max(abs(self.claim.low), abs(self.claim.high))
        return f"{self.verdict} ({self.claim.quantity.name} ± {self.claim.quantity.text(reach)})"


@dataclass(frozen=True)
class Effect:
    """One arm (B) against the one it is compared with (A): both in words, and every claim, the headlines first."""

    a: str
    b: str
    cells: tuple[Cell, Cell]
    claims: tuple[Claim, ...]
    control: Control | None

    @property
    def headline(self) -> Claim:
        """The claim that the run was made for."""
        return self.claims[0]

    def claim(self, metric: str, statistic: str) -> Claim | None:
        """One claim, if it could be made."""
        return next((c for c in self.claims if c.quantity == Quantity(metric, statistic)), None)


@dataclass(frozen=True)
class Level:
    """The headline's value in one cell: none where it is not supported, `math.inf` where losses cut it."""

    label: str
    summary: CellSummary
    quantity: Quantity
    estimate: Estimate | None


@dataclass(frozen=True)
class Answer:
    """Everything that the first screen says: `effects` are ranked, the largest gain on the headline first."""

    question: Question
    sentence: str
    effects: tuple[Effect, ...]
    levels: tuple[Level, ...]
    losses: tuple[Losses, ...]
    floor_us: float | None
    notes: tuple[str, ...]

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Every claim of every effect."""
        return tuple(claim for effect in self.effects for claim in effect.claims)


def of(bundle: Bundle, summaries: Sequence[CellSummary]) -> Answer:
    """The answer of a run."""
    question = headline.of(bundle)
    effects = tuple(_ranked(_effects(bundle, question)))
    levels = tuple(_levels(bundle, summaries, question))
    found = losses.of(bundle)
    sentence = _sentence(effects, levels, found)
    return Answer(question, sentence, effects, levels, found, bundle.floor_us, ())


def _effects(bundle: Bundle, question: Question) -> Iterator[Effect]:
    names = labels.of_cells(bundle.cells)
    by_cells: dict[tuple[int, int], list[Claim]] = {}
    for claim in compare.arms(bundle, question.margin):
        by_cells.setdefault((claim.cells[0].index, claim.cells[1].index), []).append(claim)
    for (a, b), claims in by_cells.items():
        first = sorted(claims, key=lambda c: _rank(c.quantity, question.headlines))
        yield Effect(names[a], names[b], first[0].cells, tuple(first), None)


def _rank(quantity: Quantity, headlines: Sequence[Quantity]) -> int:
    return headlines.index(quantity) if quantity in headlines else len(headlines)


def _ranked(effects: Iterator[Effect]) -> list[Effect]:
    return sorted(effects, key=lambda e: (ORDER[e.headline.verdict], e.headline.difference))


def _levels(bundle: Bundle, summaries: Sequence[CellSummary], question: Question) -> Iterator[Level]:
    names = labels.of_cells(bundle.cells)
    for summary in summaries:
        for quantity in question.headlines:
            estimate = summary.estimates.get(quantity.metric, {}).get(quantity.statistic)
            yield Level(names[summary.cell.index], summary, quantity, estimate)


def _sentence(effects: Sequence[Effect], levels: Sequence[Level], found: Sequence[Losses]) -> str:
    told = [_told(effect) for effect in effects] or [_level(level) for level in levels if level.estimate]
    lost, offered = sum(cell.lost for cell in found), sum(cell.offered for cell in found)
    return "; ".join([*told, f"{lost:,} of {offered:,} cycles lost"]) + "."


def _told(effect: Effect) -> str:
    claim = effect.headline
    amount = f" by {abs(claim.percent[0]):.0f} %" if claim.percent and claim.sure else ""
    return f"{effect.b} against {effect.a}: {claim.words}{amount} in the {claim.quantity.name}"


def _level(level: Level) -> str:
    value = level.estimate.value_us if level.estimate else math.inf
    return f"{level.label}: {level.quantity.name} {level.quantity.text(value)}"
