# SPDX-License-Identifier: Apache-2.0
"""Did a replay reproduce its original? Claim by claim: the levels themselves, and what was found between arms."""

from collections.abc import Iterator
from dataclasses import dataclass

from analysis import compare
from analysis.bundle import Bundle
from analysis.compare import SAME, UNKNOWN, Claim
from analysis.selection import Selection

YES, NO, OPEN = "reproduced", "not reproduced", "cannot be told"
VERDICTS = (YES, NO, OPEN)


@dataclass(frozen=True)
class Outcome:
    """One claim of the original and what the replay says of it."""

    claim: str
    original: str
    replay: str
    verdict: str


def outcomes(original: Bundle, replay: Bundle) -> Iterator[Outcome]:
    """First what arms differ in, then the level of every statistic of every cell."""
    for was, now in zip(compare.arms(original), compare.arms(replay), strict=False):
        name = " → ".join(cell.label for cell in was.cells)
        verdict = OPEN if UNKNOWN in (was.verdict, now.verdict) else YES if was.verdict == now.verdict else NO
        yield Outcome(f"{name}: {was.metric} {was.statistic}", was.verdict, now.verdict, verdict)
    sides = Selection("original", original, original.cells), Selection("replay", replay, replay.cells)
    levels = compare.compare(*sides, force=True)
    for claim in levels.claims:
        verdict = {SAME: YES, UNKNOWN: OPEN}.get(claim.verdict, NO)
        yield Outcome(
            f"{_cell(claim)}: {claim.metric} {claim.statistic}",
            claim.quantity.text(claim.a),
            claim.quantity.text(claim.b),
            verdict,
        )


def _cell(claim: Claim) -> str:
    return claim.cells[0].label
