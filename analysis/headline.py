# SPDX-License-Identifier: Apache-2.0
"""The question of a run and what answers it, fixed beforehand: `plan.question`, `plan.headline`, `plan.margin_percent`.

Bundles from before these fields get the headline that their kind of run has today; `recorded` says which it was.
"""

from dataclasses import dataclass

from analysis.bundle import Bundle, BundleError
from analysis.quantity import Quantity

MARGIN = 0.05
"""The share of A's value within which a difference does not matter, unless the plan or the user knows better."""

CONTENTION = (Quantity("O", "p99"), Quantity("missed", "share_percent"))
BY_NAME = {
    "study-docker": (Quantity("O", "p50"),),
    "study-qos": (Quantity("T", "p50"),),
    "study-arduino": (Quantity("R", "p50"),),
}
QUIET = (Quantity("T", "p50"), Quantity("T", "p99"))


@dataclass(frozen=True)
class Question:
    """What the run was made to answer; `recorded` is false where the bundle does not say and its name had to."""

    text: str
    headlines: tuple[Quantity, ...]
    margin: float
    recorded: bool


def of(bundle: Bundle) -> Question:
    """The bundle's question; raises `BundleError` where its plan has one that cannot be read."""
    plan = bundle.plan
    margin = float(plan.get("margin_percent", 100 * MARGIN)) / 100
    contended = any(cell.contention for cell in bundle.cells)
    default = BY_NAME.get(bundle.name, CONTENTION if contended else QUIET)
    asked = str(plan.get("question") or f"How late are answers in {bundle.name}?")
    if not plan.get("headline"):
        return Question(asked, default, margin, recorded=False)
    try:
        headlines = tuple(Quantity.parse(str(text)) for text in plan["headline"])
    except ValueError as error:
        raise BundleError(f"{bundle.folder / 'bundle.json'}: plan.headline: {error}; see docs/bundle.md") from error
    return Question(asked, headlines, margin, recorded=True)
