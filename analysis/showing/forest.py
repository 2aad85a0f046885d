# SPDX-License-Identifier: Apache-2.0
"""The differences between arms as a forest plot: one panel a quantity, one row an arm, its interval beside a zero line.

Lewis and Clarke (2001), "Forest plots: trying to see the wood and the trees", BMJ 322. Page and figure draw the same.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analysis.judging.answer import Answer, Effect
from analysis.judging.compare import FASTER, FEWER, MORE, SAME, SLOWER, UNKNOWN, Claim
from analysis.statistics.quantity import Quantity

ROWS = 40
"""The most arms in a panel: beyond it, what is sure goes before what is not, and larger differences before smaller."""
KINDS = {FASTER: "better", FEWER: "better", SLOWER: "worse", MORE: "worse", SAME: "same"}
MARKS = {"better": "▼", "worse": "▲", "same": "=", "unknown": "?"}


@dataclass(frozen=True)
class Row:
    """One arm: difference and interval in the panel's unit (None where losses cut a side), and both in words."""

    label: str
    value: float | None
    low: float
    high: float
    kind: str
    verdict: str
    amount: str


@dataclass(frozen=True)
class Panel:
    """A quantity: differences are in `unit`, those inside ± `margin` do not matter; the run is about a `headline`."""

    title: str
    unit: str
    margin: float
    headline: bool
    rows: tuple[Row, ...]
    left_out: int

    @property
    def reach(self) -> tuple[float, float]:
        """The limits of the axis: every interval and ± `margin`, except bounds far enough out to squeeze the rest."""
        bounds = [bound for row in self.rows if row.value is not None for bound in (row.low, row.high, row.value)]
        finite = [bound for bound in bounds if math.isfinite(bound)] or [0.0]
        widest = 3 * max([abs(row.value) for row in self.rows if row.value is not None] + [2 * self.margin, 1e-9])
        low, high = max(min(finite), -widest), min(max(finite), widest)
        room = 0.06 * max(high - low, 2 * self.margin, 1e-9)
        return min(low, -self.margin) - room, max(high, self.margin) + room


def panels(answer: Answer) -> tuple[Panel, ...]:
    """Return panels: the headlines, then tail and median of the same metric, losses and missed deadlines."""
    first = answer.question.headlines
    metric = answer.question.metric
    wanted = (*first, Quantity(metric, "p99"), Quantity(metric, "p50"), *_SHARES)
    candidates = (_panel(answer, quantity, headline=quantity in first) for quantity in dict.fromkeys(wanted))
    return tuple(panel for panel in candidates if panel)


_SHARES = (Quantity("missed", "share_percent"), Quantity("lost", "share_percent"))


def _panel(answer: Answer, quantity: Quantity, *, headline: bool) -> Panel | None:
    claims = list(_claims(answer.effects, quantity))
    if not claims:
        return None
    telling = sorted(claims, key=lambda entry: (entry[1].verdict == UNKNOWN, -abs(entry[1].difference)))[:ROWS]
    shown = [entry for entry in claims if entry in telling]
    margin = max(_scale(claim) * claim.margin for _, claim in claims if not claim.cut) if _measurable(claims) else 0.0
    first = " | ".join(dict.fromkeys(effect.a for effect, _ in shown))
    unit = "%" if quantity.is_time else quantity.points
    title = f"{quantity.name}, against {first}" if len(first) < 60 else quantity.name
    rows = tuple(_row(effect, claim) for effect, claim in shown)
    return Panel(title, unit, margin, headline, rows, len(claims) - len(shown))


def _measurable(claims: Sequence[tuple[Effect, Claim]]) -> bool:
    return any(not claim.cut for _, claim in claims)


def _claims(effects: Sequence[Effect], quantity: Quantity) -> Iterator[tuple[Effect, Claim]]:
    for effect in effects:
        claim = effect.claim(quantity.metric, quantity.statistic)
        if claim:
            yield effect, claim


def _scale(claim: Claim) -> float:
    """Return the factor from the quantity's unit to the panel's: % of A for a latency."""
    return 100 / claim.a if claim.quantity.is_time and claim.a else 1.0


def _row(effect: Effect, claim: Claim) -> Row:
    kind = KINDS.get(claim.verdict, "unknown")
    if claim.cut:
        amount = f"{claim.quantity.text(claim.a)} → {claim.quantity.text(claim.b)}"
        return Row(effect.b, None, math.nan, math.nan, kind, claim.words, amount)
    scale = _scale(claim)
    value, low, high = (scale * number for number in (claim.difference, claim.low, claim.high))
    unit = "%" if claim.quantity.is_time else claim.quantity.points
    amount = f"{_signed(value)} {unit} [{_signed(low)}, {_signed(high)}]"
    return Row(effect.b, value, low, high, kind, claim.words, amount)


def _signed(value: float) -> str:
    """Return the value with its sign: whole from 10 on, with a decimal below, with two below 1."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞"
    if not value:
        return "0"
    digits = 0 if abs(value) >= 10 else 1 if abs(value) >= 1 else 2
    return f"{value:+.{digits}f}".replace("-", "−")
