# SPDX-License-Identifier: Apache-2.0
"""Whether a candidate is slower than its baseline: non-inferiority, judged on the interval of the headlines.

Not slower is what the interval of B − A says when it ends within the margin; slower, when it lies above 0 and does not
end within the margin; else it cannot tell. Losses and missed deadlines fail a candidate that has surely more of them,
and let nobody pass who has more by over a point.
"""

from collections.abc import Iterator

from analysis import comparability, compare, headline, labels
from analysis.bundle import Bundle, BundleError
from analysis.checks import FAIL, PASS, UNKNOWN, Check, Outcome, worst
from analysis.compare import Claim
from analysis.quantity import Quantity
from analysis.selection import Selection, pair

LOSSES = (Quantity("lost", "share_percent"), Quantity("missed", "share_percent"))
POINTS = 1.0
"""By which a share may be larger, if that is not sure."""
WORDS = {PASS: "Not slower", FAIL: "Slower", UNKNOWN: "Cannot tell"}


def judge(baseline: Bundle, candidate: Bundle, margin_percent: float | None = None, *, force: bool = False) -> Outcome:
    """The candidate against its baseline; what cannot be compared cannot be told."""
    question = headline.of(baseline)
    margin = question.margin if margin_percent is None else margin_percent / 100
    a, b = (Selection(str(run.folder), run, run.cells) for run in (baseline, candidate))
    name = f"gate of {candidate.name.removeprefix('gate-')}"
    try:
        obstacles = comparability.obstacles(a, b, pair(a, b))
        changes = comparability.changes(a, b, pair(a, b))
        if candidate.status != "complete":
            obstacles.append(f"the candidate's run is {candidate.status}: {candidate.document.get('reason')}")
            force = False
        if obstacles and not force:
            return _untold(name, "; ".join(obstacles))
        claims = compare.compare(a, b, margin=margin, force=True).claims
    except BundleError as error:
        return _untold(name, str(error))
    checked = tuple(_checks(claims, question.headlines, labels.of_cells(candidate.cells)))
    differing = [line for line in (*obstacles, *changes) if not line.startswith(("arm:", "scenario:"))]
    return Outcome(
        name, _sentence(checked, differing, margin), checked, tuple(f"differs: {line}" for line in differing)
    )


def _untold(name: str, why: str) -> Outcome:
    return Outcome(name, f"{WORDS[UNKNOWN]}: {why}.", (Check(name, "comparison", UNKNOWN, why),))


def _checks(claims: tuple[Claim, ...], headlines: tuple[Quantity, ...], names: dict[int, str]) -> Iterator[Check]:
    judged = {*headlines, *LOSSES}
    for claim in claims:
        if claim.quantity in judged:
            verdict = _of_latency(claim) if claim.quantity.is_latency else _of_share(claim)
            yield Check(names[claim.cells[1].index], claim.quantity.name, verdict, _figures(claim))


def _of_latency(claim: Claim) -> str:
    flattered = claim.verdict == compare.UNKNOWN and claim.why
    if claim.high <= claim.margin and not flattered:
        return PASS
    return FAIL if claim.sure and claim.difference > 0 else UNKNOWN


def _of_share(claim: Claim) -> str:
    if claim.sure and claim.difference > 0:
        return FAIL
    return PASS if claim.difference <= POINTS else UNKNOWN


def _figures(claim: Claim) -> str:
    quantity = claim.quantity
    values = f"{quantity.text(claim.a)} → {quantity.text(claim.b)}"
    if claim.percent:
        values += " ({:+.1f} % [{:+.1f}, {:+.1f}])".format(*claim.percent)
    else:
        values += f" ({quantity.interval(claim.low, claim.high)})"
    return f"{values}; {claim.why}" if claim.why else values


def _sentence(checked: tuple[Check, ...], differing: list[str], margin: float) -> str:
    verdict = worst([check.verdict for check in checked])
    telling = next((check for check in checked if check.verdict == verdict), None)
    told = f"{telling.where}, {telling.what} {telling.why}" if telling else "nothing could be compared"
    swapped = [line for line in differing if line.startswith(("broker", "image broker", "control-loop", "pi", "board"))]
    under = f" Differs: {'; '.join(swapped or differing)}." if differing else " Nothing that is recorded differs."
    return f"{WORDS[verdict]}: {told}; margin {100 * margin:g} %.{under}"
