# SPDX-License-Identifier: Apache-2.0
"""The question of a run and what answers it, fixed beforehand: `plan.question`, `plan.headline`, `plan.margin_percent`.

A bundle without these fields is asked for median and tail of the round trip, or, of the control loop from before there
were such fields, for what its kind of run has today; `recorded` says which it was.
"""

from dataclasses import dataclass

from analysis.reading import control
from analysis.reading.bundle import Bundle, BundleError
from analysis.statistics.quantity import Quantity

MARGIN = 0.05
"""The share of A's value within which a difference does not matter, unless the plan or the user knows better."""

CONTENTION = (Quantity(control.REMAINDER, "p99"), Quantity("missed", "share_percent"))
BY_NAME = {
    "study-docker": (Quantity(control.REMAINDER, "p50"),),
    "study-qos": (Quantity(control.ROUND_TRIP, "p50"),),
    "study-arduino": (Quantity(control.BOARD, "p50"),),
}
"""The control loop's, where the bundle does not say: under contention, and of studies."""


@dataclass(frozen=True)
class Question:
    """What the run was made to answer; `recorded` is false where the bundle has no headline and a usual one was taken.

    `metric` is the latency whose differences are shown: the first headline that is a latency, else the family's
    `remainder`.
    """

    text: str
    headlines: tuple[Quantity, ...]
    margin: float
    recorded: bool
    metric: str


def of(bundle: Bundle) -> Question:
    """Return the bundle's question; raise `BundleError` where its plan's cannot be read."""
    plan = bundle.plan
    margin = float(plan.get("margin_percent", 100 * MARGIN)) / 100
    wording = str(plan.get("question") or f"How late are answers in {bundle.name}?")
    if not plan.get("headline"):
        return _question(bundle, wording, _default(bundle), margin, recorded=False)
    try:
        headlines = tuple(Quantity.parse(str(text)) for text in plan["headline"])
    except ValueError as error:
        raise BundleError(f"{bundle.folder / 'bundle.json'}: plan.headline: {error}; see docs/bundle.md") from error
    if unknown := [quantity for quantity in headlines if quantity.is_latency and not _is_known(bundle, quantity)]:
        allowed = f"metrics are {', '.join(bundle.family.latencies)}"
        raise BundleError(f"{bundle.folder / 'bundle.json'}: plan.headline: {str(unknown[0])!r} is unknown; {allowed}")
    return _question(bundle, wording, headlines, margin, recorded=True)


def _is_known(bundle: Bundle, quantity: Quantity) -> bool:
    return quantity.metric in bundle.family.latencies


def _question(bundle: Bundle, text: str, headlines: tuple[Quantity, ...], margin: float, *, recorded: bool) -> Question:
    metric = next((quantity.metric for quantity in headlines if quantity.is_latency), bundle.family.remainder)
    return Question(text, headlines, margin, recorded, metric)


def _default(bundle: Bundle) -> tuple[Quantity, ...]:
    if control.is_family(bundle.family):
        if bundle.name in BY_NAME:
            return BY_NAME[bundle.name]
        if any(cell.contention for cell in bundle.cells):
            return CONTENTION
    return Quantity(bundle.round_trip, "p50"), Quantity(bundle.round_trip, "p99")
