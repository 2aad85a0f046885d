# SPDX-License-Identifier: Apache-2.0
"""A run that was looked at while it lasted (`PRECISION`): when it may stop, and what its intervals then cost.

The looks are in `plan.sequential`, fixed before the run; each spends its part of the chance of error, the parts adding
up to the whole (Lan and DeMets 1983). Every look judges at the part that it spends alone. Hence, by the union bound,
the intervals of all looks hold together, whatever the test, and a run may stop for any reason, a difference, none, or a
narrow interval: they are repeated confidence intervals (Jennison and Turnbull 1989, "Interim analyses: the repeated
confidence interval approach", J. R. Statist. Soc. B 51). What is reported after stopping is the last look's interval.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from analysis.reading.bundle import Bundle, BundleError
from analysis.statistics.bootstrap import CONFIDENCE
from analysis.statistics.quantity import Quantity
from schema.looks import Look
from schema.reading import REMEDY

ROUNDING = 1e-3
"""Shares are recorded to six digits."""


@dataclass(frozen=True)
class Rule:
    """The stopping rule of a run, fixed beforehand: how narrow its headline's interval must be, and when to look."""

    precision: float
    looks: tuple[Look, ...]

    @property
    def most(self) -> int:
        """The number of repetitions after which a run ends in any case."""
        return self.looks[-1].repetitions

    def at(self, repetitions: int) -> Look:
        """Return the look that data of this many repetitions belong to: the next one, if they end before it."""
        return next((look for look in self.looks if look.repetitions >= repetitions), self.looks[-1])


@dataclass(frozen=True)
class Headline:
    """A headline as a look sees it: its verdict, None so far, and half the interval's width as a part of A's value.

    `half_width` is infinite where there is no interval yet, or losses cut it.
    """

    name: str
    quantity: Quantity
    verdict: str | None
    half_width: float


@dataclass(frozen=True)
class Decision:
    """Whether to stop, why (in words), and the widest half-width among the headlines that no verdict has settled."""

    stop: bool
    reason: str
    half_width: float


def rule(bundle: Bundle) -> Rule | None:
    """Return the plan's stopping rule, None for a fixed number of repetitions; raise `BundleError` if unreadable."""
    recorded = bundle.plan.get("sequential")
    if recorded is None:
        return None
    looks = tuple(Look(look["repetitions"], look["share"]) for look in recorded["looks"])
    if [look.repetitions for look in looks] != sorted({look.repetitions for look in looks}):
        raise BundleError(f"{bundle.folder / 'bundle.json'}: plan.sequential: looks are not in order; {REMEDY}")
    if sum(look.share for look in looks) > 1 + ROUNDING:
        raise BundleError(f"{bundle.folder / 'bundle.json'}: plan.sequential: its looks spend too much; {REMEDY}")
    return Rule(recorded["precision_percent"] / 100, looks)


def share(bundle: Bundle) -> float:
    """Return the part of the chance of error that the bundle's intervals and verdicts may use: 1 without looks."""
    stopping = rule(bundle)
    return 1.0 if stopping is None else stopping.at(reached(bundle)).share


def confidence(bundle: Bundle) -> float:
    """Return the confidence of each interval of the bundle, such that those of all looks hold together at 95 %."""
    return 1 - (1 - CONFIDENCE) * share(bundle)


def reached(bundle: Bundle) -> int:
    """Return the last repetition of the bundle's blocks; numbers beyond the plan's are re-runs of noisy ones."""
    most = int(bundle.plan["repetitions"])
    return max((r.repetition for r in bundle.repetitions if r.repetition <= most), default=0)


def notice(bundle: Bundle) -> str | None:
    """Return the note that every table of a run with looks must carry; None for a fixed number of repetitions."""
    stopping = rule(bundle)
    if stopping is None:
        return None
    number = 1 + stopping.looks.index(stopping.at(reached(bundle)))
    return (
        f"as many repetitions as it takes: {reached(bundle)} of at most {stopping.most} "
        f"(PRECISION={100 * stopping.precision:g}%, look {number} of {len(stopping.looks)}); "
        f"intervals allow for the looks: each holds at {confidence(bundle):.1%}, "
        f"those of all looks together at {CONFIDENCE:.0%}"
    )


def decide(seen: Iterable[Headline], stopping: Rule, repetitions: int) -> Decision:
    """Decide to stop where every headline is settled, by a verdict or by an interval that is narrow enough."""
    everything = list(seen)
    waiting = [headline for headline in everything if headline.verdict is None]
    widest = max(waiting, key=lambda headline: headline.half_width, default=None)
    half_width = widest.half_width if widest else 0.0
    aim = f"PRECISION={100 * stopping.precision:g}%"
    if not everything:
        return Decision(stop=False, reason="nothing to judge yet", half_width=math.inf)
    if widest is None:
        return Decision(stop=True, reason=f"a verdict stands on the {everything[0].quantity.name}", half_width=0.0)
    known = f"{widest.name}: {widest.quantity.name} {_known(half_width)}"
    if half_width <= stopping.precision:
        return Decision(stop=True, reason=f"{known} ({aim})", half_width=half_width)
    if repetitions >= stopping.most:
        return Decision(
            stop=True, reason=f"REPETITIONS={stopping.most} are used up: {known} ({aim})", half_width=half_width
        )
    return Decision(stop=False, reason=f"{known} ({aim})", half_width=half_width)


def _known(half_width: float) -> str:
    return f"within ± {100 * half_width:.3g} %" if math.isfinite(half_width) else "has no bounds yet"
