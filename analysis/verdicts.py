"""Verdicts in words: one sentence a pair of cells and metric, for the terminal and the report."""

import itertools
from collections.abc import Sequence

from analysis.compare import FASTER, SAME, SLOWER, UNKNOWN, Claim

NAMES = {"avg": "mean", "p50": "median"}


def sentences(claims: Sequence[Claim]) -> list[str]:
    """What was found of T, R and O in each pair of cells."""
    grouped = itertools.groupby(claims, key=lambda claim: (claim.cells, claim.metric))
    return [_sentence(metric, list(own)) for (_, metric), own in grouped]


def _sentence(metric: str, claims: Sequence[Claim]) -> str:
    cells = " → ".join(dict.fromkeys(cell.label for cell in claims[0].cells))
    parts = [part for verdict in (SLOWER, FASTER, SAME, UNKNOWN) if (part := _part(verdict, claims))]
    return f"{metric} ({cells}): {'; '.join(parts)}."


def _part(verdict: str, claims: Sequence[Claim]) -> str:
    own = [claim for claim in claims if claim.verdict == verdict]
    if not own:
        return ""
    if verdict in {SLOWER, FASTER}:
        amounts = ", ".join(
            f"{_name(c)} by {abs(c.difference_us) / 1000:.3f} ms "
            f"[{min(abs(c.low_us), abs(c.high_us)) / 1000:.3f}, {max(abs(c.low_us), abs(c.high_us)) / 1000:.3f}]"
            for c in own
        )
        return f"B is {verdict}: {amounts}"
    return f"{verdict} in {', '.join(_name(c) for c in own)}"


def _name(claim: Claim) -> str:
    return NAMES.get(claim.statistic, claim.statistic)
