# SPDX-License-Identifier: Apache-2.0
"""Did a replay reproduce its original? Claim by claim: what arms were found to differ in, and the levels themselves."""

import collections
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analysis.judging import comparability, compare, headline
from analysis.judging.compare import SAME, UNKNOWN, Claim
from analysis.judging.headline import Question
from analysis.reading.bundle import Bundle, BundleError
from analysis.reading.family import Value
from analysis.reading.selection import Selection

YES, NO, OPEN = "reproduced", "contradicted", "cannot tell"
NAMED = 3

Key = tuple[tuple[Value, ...], tuple[Value, ...], str]
"""What makes two claims of two runs the same one: the conditions of both its cells, and the statistic."""


@dataclass(frozen=True)
class Outcome:
    """One claim of the original run beside the replay's, and the verdict on its reproduction."""

    claim: str
    original: str
    replay: str
    verdict: str
    headline: bool = False
    """Is it what the original was made to answer?"""
    why: str = ""
    """What keeps it from being told, and what that would take."""


def outcomes(original: Bundle, replay: Bundle) -> tuple[Outcome, ...]:
    """Return outcomes on differences between arms, then on the level of every statistic; the headline's first in each.

    Both runs are judged by the margin that the original's question has.
    """
    comparability.require_alike(original, replay)
    question = headline.of(original)
    parts = (_of_arms(original, replay, question), _of_levels(original, replay, question))
    return tuple(outcome for part in parts for outcome in sorted(part, key=lambda one: not one.headline))


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return the result in a sentence or two, contradictions by name."""
    if not outcomes:
        return "Cannot tell: the two runs have no claim in common; each needs 2 counted repetitions with answers."
    first = [outcome for outcome in outcomes if outcome.headline]
    text = f"{_counted(outcomes)}."
    if first and len(first) < len(outcomes):
        text = f"Of the headline, {_counted(first)}. In all, {text}"
    if reason := next((outcome.why for outcome in first or outcomes if outcome.verdict == OPEN and outcome.why), ""):
        text += f" Why not: {reason}."
    broken = [outcome.claim for outcome in outcomes if outcome.verdict == NO]
    if not broken:
        return text
    more = f", and {len(broken) - NAMED} more" if len(broken) > NAMED else ""
    return f"{text} Contradicted: {'; '.join(broken[:NAMED])}{more}."


def _counted(outcomes: Sequence[Outcome]) -> str:
    counts = collections.Counter(outcome.verdict for outcome in outcomes)
    text = f"{counts[YES]} of {len(outcomes)} claims were reproduced, {counts[NO]} contradicted"
    return text + (f", and of {counts[OPEN]} the two runs cannot tell" if counts[OPEN] else "")


def caveat(original: Bundle, replay: Bundle) -> str | None:
    """Return a caveat on levels if the two runs were made on different machines; otherwise None."""
    was, now = (bundle.document["host"].get("hostname_hash") for bundle in (original, replay))
    if was == now:
        return None
    return "The replay ran on another machine: levels belong to a machine; what arms differ in is what should travel."


def _of_arms(original: Bundle, replay: Bundle, question: Question) -> Iterator[Outcome]:
    again = {_key(claim): claim for claim in compare.arms(replay, question.margin)}
    for was in compare.arms(original, question.margin):
        now = again.get(_key(was))
        name = " → ".join(cell.label for cell in was.cells)
        verdict = OPEN
        if now is not None and UNKNOWN not in (was.verdict, now.verdict):
            verdict = YES if was.verdict == now.verdict else NO
        replayed = now.words if now else "not measured"
        first = was.quantity in question.headlines
        whose = [
            f"{side}: {why}"
            for side, side_claim in (("original", was), ("replay", now))
            if side_claim and (why := _why(side_claim))
        ]
        yield Outcome(f"{name}: {was.quantity.name}", was.words, replayed, verdict, first, "; ".join(whose))


def _of_levels(original: Bundle, replay: Bundle, question: Question) -> Iterator[Outcome]:
    sides = Selection("original", original, original.cells), Selection("replay", replay, replay.cells)
    try:
        levels = compare.compare(*sides, margin=question.margin, force=True)
    except BundleError:
        return
    for claim in levels.claims:
        verdict = {SAME: YES, UNKNOWN: OPEN}.get(claim.verdict, NO)
        name = f"{claim.cells[0].label}: {claim.quantity.name}"
        values = claim.quantity.text(claim.a), claim.quantity.text(claim.b)
        yield Outcome(name, *values, verdict, claim.quantity in question.headlines, _why(claim))


def _why(claim: Claim) -> str:
    """Return why a claim has no verdict; an empty string where it has one."""
    return ", ".join(claim.needs) if claim.verdict == UNKNOWN else ""


def _key(claim: Claim) -> Key:
    a, b = claim.cells
    return a.key, b.key, str(claim.quantity)
