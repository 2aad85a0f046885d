# SPDX-License-Identifier: Apache-2.0
"""What a reader may conclude from a difference and its interval, and what it would take where that is nothing.

The interval within the margin says `the same`; beyond 0 `faster` or `slower`; else `cannot tell`. A loss cannot
flatter: `faster` is never said across a quantile that losses cut, nor of a side that loses more. A recovery time is
flattered by none: it is no cycle's, and one that never came ranks last.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from scipy import special

from analysis.judging import inference
from analysis.judging.headline import Question
from analysis.judging.inference import Result
from analysis.judging.measures import Measure
from analysis.reading.bundle import Cell
from analysis.statistics.quantity import Quantity, three_digits

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
    of_answered: bool = False
    """Whether lost cycles have no part in it, so that a loss can flatter it."""

    @property
    def metric(self) -> str:
        """The metric's name: a latency, `lost`, `missed` or `recovery`."""
        return self.quantity.metric

    @property
    def statistic(self) -> str:
        """The statistic's name: `avg`, `p50`, …, `share_percent`, `burst`."""
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
        """(difference, low, high) in % of A; None where A is 0 or either side is cut."""
        if self.cut or not self.a or not self.quantity.is_time:
            return None
        return 100 * self.difference / self.a, 100 * self.low / self.a, 100 * self.high / self.a

    @property
    def words(self) -> str:
        """The verdict in words: `the same within 5 %`."""
        if self.verdict != SAME:
            return self.verdict
        if not self.quantity.is_time:
            points = self.quantity.points.removesuffix("s") if self.margin == 1 else self.quantity.points
            return f"{SAME} within {self.margin:g} {points}"
        return f"{SAME} within {round(100 * self.margin / self.a, 3) if self.a else 0:g} %"

    @property
    def needs(self) -> tuple[str, ...]:
        """Why the verdict is not clear, and about how many repetitions would settle it."""
        settle = f"about {self.repetitions:,} repetitions a side would settle it" if self.repetitions else ""
        return tuple(filter(None, (self.why, settle)))


MARGIN_POINTS = 1.0
"""The margin of a share, in points: as much as cuts p99. Of a burst: one cycle."""
POWER = float(special.ndtri(0.8))
"""How many standard errors beyond the critical value a difference must lie to be found in four of five runs."""
ENOUGH = 5
"""Repetitions a side with which verdicts begin to be possible."""
MOST = 10_000
LOST = Quantity("lost", "share_percent")


def claim(cells: tuple[Cell, Cell], measure: Measure, result: Result, repetitions: int, question: Question) -> Claim:
    """Return the claim on one measure from its test; `repetitions` is the number tested on the smaller side."""
    low, high = measure.interval(result.critical)
    difference = 0.0 if measure.a == measure.b else measure.b - measure.a
    sure = result.sure and result.t * difference > 0
    nearest = difference * (1 - result.critical / abs(result.t)) if sure and math.isfinite(difference) else 0.0
    limit = question.margin * measure.a if measure.quantity.is_time else MARGIN_POINTS
    limit = limit if math.isfinite(limit) else 0.0  # nothing is nearly lost
    made = Claim(
        cells=cells,
        quantity=measure.quantity,
        a=measure.a,
        b=measure.b,
        low=_agreeing(low, nearest, inside=sure and difference > 0) if sure else min(low, 0.0),
        high=-_agreeing(-high, -nearest, inside=sure and difference < 0) if sure else max(high, 0.0),
        p=result.p,
        sure=sure,
        cliffs_delta=inference.cliffs_delta(measure.scores_a, measure.scores_b),
        margin=limit,
        verdict=UNKNOWN,
        headline=measure.quantity in question.headlines,
        of_answered=measure.of_answered,
    )
    made = _concluded(made)
    return _with_needs(made, (high - low) / 2, result.critical, repetitions) if made.verdict == UNKNOWN else made


def _agreeing(bound: float, nearest: float, *, inside: bool) -> float:
    """Return the bound nearer to 0, beyond 0 where the test is sure (test-based limits: Miettinen 1976)."""
    return nearest if inside and bound <= 0 else bound


def guarded(claims: Sequence[Claim]) -> Iterator[Claim]:
    """Yield the claims, without a verdict where more losses may have flattered a side; grouped by pair of cells."""
    for _, group in itertools.groupby(claims, key=lambda c: c.cells):
        pair_claims = list(group)
        losses = next((c for c in pair_claims if c.quantity == LOST), None)
        yield from (_guarded(c, losses) for c in pair_claims)


def of_deadlines(made: Claim, a_ms: int, b_ms: int) -> Claim:
    """Return the claim, without a verdict if it counts missed deadlines and A's and B's deadlines differ."""
    if made.metric != "missed" or a_ms == b_ms:
        return made
    return _unknown(made, f"A's deadline is {a_ms} ms, B's {b_ms} ms")


def loses_more(losses: Claim | None) -> str:
    """Return `A` or `B` if that side loses more for sure, or by more than the margin; otherwise an empty string."""
    if losses is None or not (losses.sure or abs(losses.difference) > losses.margin):
        return ""
    return "B" if losses.difference > 0 else "A"


def _concluded(made: Claim) -> Claim:
    less, more = (FASTER, SLOWER) if made.quantity.is_time else (FEWER, MORE)
    word = less if made.difference < 0 else more
    if -made.margin <= made.low and made.high <= made.margin:
        return replace(made, verdict=SAME, why=_inside(made, word) if made.sure else "")
    if not made.sure:
        return made
    crossing = min(abs(made.low), abs(made.high)) < made.margin
    return replace(made, verdict=word, why="it may still lie inside the margin" if crossing else "")


def _inside(made: Claim, word: str) -> str:
    if made.percent:
        amount = f"{three_digits(abs(made.percent[0]))} %"
        margin = f"{round(100 * made.margin / made.a, 3):g} %"
    else:
        amount, margin = (f"{three_digits(abs(x))} {made.quantity.points}" for x in (made.difference, made.margin))
    return f"{word} by {amount}, inside the margin of {margin}: does not matter"


def _guarded(made: Claim, losses: Claim | None) -> Claim:
    if not made.quantity.is_latency:
        return made
    cut = [name for name, value in (("A", made.a), ("B", made.b)) if math.isinf(value)]
    more = loses_more(losses)
    if made.verdict == FASTER and cut:
        return _unknown(made, f"losses cut the {made.quantity.name} of A: there is nothing to be faster than")
    if made.verdict == UNKNOWN and cut:
        return _unknown(made, f"losses cut the {made.quantity.name} of {' and '.join(cut)}")
    if not more or losses is None:
        return made
    flattered = (made.verdict, more) in {(FASTER, "B"), (SLOWER, "A")}
    if flattered or (made.verdict == SAME and made.of_answered):
        shares = f"{three_digits(losses.a)} % against {three_digits(losses.b)} %"
        of = "the slowest may be among them" if made.of_answered else "a loss is worse than any answer"
        return _unknown(made, f"{more} lost more cycles, A {shares} of B: {of}")
    return made


def _unknown(made: Claim, why: str) -> Claim:
    return replace(made, verdict=UNKNOWN, why=why, detectable=None, repetitions=None)


def _with_needs(made: Claim, reach: float, critical: float, repetitions: int) -> Claim:
    """Return the claim with the detectable difference, and the repetitions that it takes to reach a verdict."""
    if math.isinf(critical) or critical <= 0:
        return replace(made, why=f"{repetitions} repetitions side by side are too few", repetitions=ENOUGH)
    if not math.isfinite(reach):
        open_ = "losses leave" if made.quantity.is_latency else "so few repetitions leave"
        return replace(made, why=f"{open_} the interval open")
    error = reach / critical
    wanted = max(abs(made.difference), made.margin - abs(made.difference))
    # With many repetitions Student's t nears the normal distribution.
    settled = -float(special.ndtri(special.stdtr(2 * repetitions - 2, -critical))) + POWER
    needed = math.inf if wanted <= 0 else repetitions * (settled * error / wanted) ** 2
    return replace(
        made,
        detectable=(critical + POWER) * error,
        repetitions=max(math.ceil(needed), repetitions + 1) if needed < MOST else None,
    )
