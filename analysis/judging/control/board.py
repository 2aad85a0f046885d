# SPDX-License-Identifier: Apache-2.0
"""The control loop's negative control: R, the board's share, should not move where nothing touches the Pi."""

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.judging import conclusion
from analysis.judging.conclusion import UNKNOWN, Claim
from analysis.reading import control
from analysis.reading.bundle import Bundle, Cell

STILL, MOVED, UNSURE = "R did not move", "the board was disturbed, and the verdict with it", "no sign that R moved"
TOUCHING_R = ("pi", "board")
"""Services whose knobs R may feel."""


@dataclass(frozen=True)
class Control:
    """The verdict on R where nothing that was varied touches the Pi; it rests on `claim`, the most telling one."""

    verdict: str
    claim: Claim

    @property
    def text(self) -> str:
        """The control in words: `R did not move (p99 of R within ± 0.2 ms)`."""
        quantity = self.claim.quantity
        if self.verdict == MOVED:
            return f"{self.verdict}: {quantity.name} {quantity.text(self.claim.difference, signed=True)}"
        reach = max(abs(self.claim.low), abs(self.claim.high))
        return f"{self.verdict} ({quantity.name} within ± {quantity.text(reach)})"


def control_of(claims: Sequence[Claim], bundles: tuple[Bundle, Bundle]) -> Control | None:
    """Return the control from the claims on one pair of cells; None where R may move, or is not measured."""
    if not control.is_family(bundles[0].family) or _touches_r(bundles, claims[0].cells):
        return None
    return _control(claims)


def _touches_r(bundles: tuple[Bundle, Bundle], cells: tuple[Cell, Cell]) -> bool:
    """Return whether R may differ for a reason: another board, placement, or knob at the Pi."""
    felt = []
    for bundle, cell in zip(bundles, cells, strict=True):
        planned = next(entry for entry in bundle.plan["cells"] if entry["cell"] == cell.index)
        knobs = [cell.knobs.get(service) for service in TOUCHING_R]
        felt.append((cell.board, planned.get("placement") or bundle.document["placement"], knobs))
    return felt[0] != felt[1]


def _control(claims: Sequence[Claim]) -> Control | None:
    """R moved if it surely differs by more than T's margin; it did not if no interval reaches that far."""
    of_t = {claim.statistic: claim.margin for claim in claims if claim.metric == control.ROUND_TRIP}
    of_r = [claim for claim in claims if claim.metric == control.BOARD and of_t.get(claim.statistic)]
    if not of_r:
        return None
    # R is of the answered: that the slowest were lost is no sign of a board at rest, nor of one disturbed.
    flattered = bool(
        conclusion.loses_more(next((claim for claim in claims if claim.quantity == conclusion.LOST), None))
    )
    moved = [
        claim
        for claim in of_r
        if claim.sure and claim.verdict != UNKNOWN and abs(claim.difference) > of_t[claim.statistic]
    ]
    if moved:
        return Control(MOVED, max(moved, key=lambda claim: abs(claim.difference) / of_t[claim.statistic]))
    widest = max(of_r, key=lambda claim: max(abs(claim.low), abs(claim.high)) / of_t[claim.statistic])
    reach = max(abs(widest.low), abs(widest.high))
    return Control(STILL if reach <= of_t[widest.statistic] and not flattered else UNSURE, widest)
