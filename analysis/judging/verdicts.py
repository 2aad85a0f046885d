# SPDX-License-Identifier: Apache-2.0
"""Verdicts in words: one sentence a pair of cells and metric, for the terminal and the report."""

import itertools
from collections.abc import Sequence

from analysis.judging.compare import FASTER, FEWER, MORE, SAME, SLOWER, UNKNOWN, Claim
from analysis.statistics.quantity import NAMES, OF_SHARES, SHARES


def sentences(claims: Sequence[Claim]) -> list[str]:
    """Return a sentence for each metric in each pair of cells."""
    return [f"{_subject(group[0])} ({_cells(group[0])}): {about('B', group)}." for group in grouped(claims)]


def grouped(claims: Sequence[Claim]) -> list[list[Claim]]:
    """Return consecutive claims grouped by pair of cells and metric."""
    return [list(group) for _, group in itertools.groupby(claims, key=lambda claim: (claim.cells, claim.metric))]


def about(name: str, claims: Sequence[Claim]) -> str:
    """Return the verdicts on B in words; `name` is B's, or empty where it is clear."""
    return "; ".join(
        part for verdict in (SLOWER, FASTER, MORE, FEWER, SAME, UNKNOWN) if (part := _part(name, verdict, claims))
    )


def _subject(claim: Claim) -> str:
    return SHARES.get(claim.metric, claim.metric)


def _cells(claim: Claim) -> str:
    return " → ".join(dict.fromkeys(cell.label for cell in claim.cells))


def _part(name: str, verdict: str, claims: Sequence[Claim]) -> str:
    matching = [claim for claim in claims if claim.verdict == verdict]
    if not matching:
        return ""
    if verdict in {SLOWER, FASTER, MORE, FEWER}:
        verb = "has" if verdict in {MORE, FEWER} else "is"
        words = f"{name} {verb} {verdict}: " if name else f"{verdict}, "
        return words + ", ".join(_amount(claim) for claim in matching)
    return f"{matching[0].words} in {', '.join(_name(c) for c in matching)}"


def _amount(claim: Claim) -> str:
    if claim.cut:
        return f"{_name(claim)}, which {'losses cut' if claim.quantity.is_latency else 'never comes on one side'}"
    difference = claim.quantity.text(abs(claim.difference))
    low, high = sorted((abs(claim.low), abs(claim.high)))
    return f"{_name(claim)} by {difference} {claim.quantity.bounds(low, high)}"


def _name(claim: Claim) -> str:
    if claim.quantity.is_time:
        return NAMES.get(claim.statistic, claim.statistic)
    return OF_SHARES[claim.statistic]
