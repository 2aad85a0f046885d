# SPDX-License-Identifier: Apache-2.0
"""What the runner asks between blocks of a run with `PRECISION`: is the answer there? Judged as in the final report."""

import math
from typing import Any

from analysis.judging import answer
from analysis.judging.answer import Answer
from analysis.judging.compare import UNKNOWN, Claim
from analysis.reading.bundle import Bundle, BundleError
from analysis.statistics import per_cell, sequential
from analysis.statistics.estimate import Interval
from analysis.statistics.sequential import Decision, Headline, Rule


def look(bundle: Bundle) -> dict[str, Any]:
    """Return a look's outcome as an entry of `looks` in bundle.json; raise `BundleError` for a run without looks."""
    rule = rule_of(bundle)
    seen = headlines(answer.of(bundle, per_cell.summarise(bundle)))
    return record(bundle, sequential.decide(seen, rule, sequential.reached(bundle)))


def rule_of(bundle: Bundle) -> Rule:
    """Return the stopping rule of a run with PRECISION; raise `BundleError` for any other run."""
    rule = sequential.rule(bundle)
    if rule is None:
        raise BundleError(f"{bundle.folder}: its plan has no looks; they belong to a run with PRECISION")
    return rule


def record(bundle: Bundle, decision: Decision) -> dict[str, Any]:
    """Return a decision as an entry of `looks` in bundle.json."""
    return {
        "repetitions": sequential.reached(bundle),
        "stop": decision.stop,
        "reason": decision.reason,
        "half_width_percent": round(100 * decision.half_width, 2) if math.isfinite(decision.half_width) else None,
        "confidence": round(sequential.confidence(bundle), 6),
    }


def headlines(run: Answer) -> list[Headline]:
    """Return the first headline of every effect, or, in a run without arms, of every cell."""
    first = run.question.headlines[0]
    if run.effects:
        claims = (
            (f"{effect.b} against {effect.a}", effect.claim(first.metric, first.statistic)) for effect in run.effects
        )
        return [Headline(name, first, _verdict(claim), of_difference(claim)) for name, claim in claims]
    levels = (level for level in run.levels if level.quantity == first)
    return [Headline(level.label, first, None, _of_level(level.interval)) for level in levels]


def _verdict(claim: Claim | None) -> str | None:
    return None if claim is None or claim.verdict == UNKNOWN else claim.verdict


def of_difference(claim: Claim | None) -> float:
    """Return half the interval of B − A as a fraction of A's value; infinite where there is none."""
    if claim is None or claim.cut or not claim.a:
        return math.inf
    return (claim.high - claim.low) / 2 / abs(claim.a)


def _of_level(interval: Interval | None) -> float:
    if interval is None or interval.low is None or interval.high is None or not interval.value:
        return math.inf
    return (interval.high - interval.low) / 2 / abs(interval.value)
