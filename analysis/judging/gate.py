# SPDX-License-Identifier: Apache-2.0
"""Whether a candidate is slower than its baseline: non-inferiority, judged on the interval of the headlines.

Not slower is what the interval of B − A says when it ends within the margin; slower, when it lies above 0 and does not
end within the margin; else it cannot tell. Losses and missed deadlines fail a candidate that has surely more of them,
and let nobody pass who has more by over a point.

The first headline decides who passes, as the primary endpoint of a trial does; those after it can fail a candidate,
and where they cannot tell the sentence says so. A p99 within 5 % takes hundreds of repetitions: were it asked for, no
candidate would ever pass.
"""

from typing import Any

from analysis.judging import answer, comparability, compare, headline
from analysis.judging.checks import FAIL, PASS, UNKNOWN, Check, Outcome, telling, worst
from analysis.judging.compare import Claim, Comparison
from analysis.judging.control import board
from analysis.judging.look import of_difference, record, rule_of
from analysis.reading import labels
from analysis.reading.bundle import Bundle, BundleError
from analysis.reading.selection import Selection, pair
from analysis.statistics import sequential
from analysis.statistics.quantity import Quantity, three_digits
from analysis.statistics.sequential import Decision, Headline

MISSED = Quantity("missed", "share_percent")
LOSSES = (Quantity("lost", "share_percent"), MISSED)
NOISIER = 0.5
"""By how much the shares of noisy repetitions may differ before the machine explains as much as the candidate."""
POINTS = 1.0
"""By which a share may be larger, if that is not sure."""
WORDS = {PASS: "Not slower", FAIL: "Slower", UNKNOWN: "Cannot tell"}


def judge(baseline: Bundle, candidate: Bundle, margin_percent: float | None = None, *, force: bool = False) -> Outcome:
    """Judge the candidate against its baseline; unknown where its run is incomplete or they cannot be compared."""
    if candidate.status != "complete":
        return _untold(candidate, f"the candidate's run is {candidate.status}: {candidate.document.get('reason')}")
    return so_far(baseline, candidate, margin_percent, force=force)[0]


def look(
    baseline: Bundle, candidate: Bundle, margin_percent: float | None = None, *, force: bool = False
) -> dict[str, Any]:
    """Return whether a gate with PRECISION can stop, as an entry of `looks` in bundle.json."""
    outcome, seen = so_far(baseline, candidate, margin_percent, force=force)
    if outcome.verdict != UNKNOWN:
        return record(candidate, Decision(stop=True, reason=outcome.sentence, half_width=0.0))
    return record(candidate, sequential.decide(seen, rule_of(candidate), sequential.reached(candidate)))


def so_far(
    baseline: Bundle, candidate: Bundle, margin_percent: float | None = None, *, force: bool = False
) -> tuple[Outcome, list[Headline]]:
    """Return the outcome for a candidate that may still be running, and each headline as a look sees it."""
    question = headline.of(baseline)
    margin = question.margin if margin_percent is None else margin_percent / 100
    a, b = (Selection(str(run.folder), run, run.cells) for run in (baseline, candidate))
    try:
        obstacles = [*comparability.obstacles(a, b, pair(a, b)), *_busier(baseline, candidate)]
        if obstacles and not force:
            return _untold(candidate, "; ".join(obstacles)), []
        comparison = compare.compare(a, b, margin=margin, force=True)
    except BundleError as error:
        return _untold(candidate, str(error)), []
    moved = _moved(comparison)
    names = labels.of_cells(candidate.cells)
    judged = [claim for claim in comparison.claims if claim.quantity in {*question.headlines, *LOSSES}]
    checked = tuple(
        Check(
            names[claim.cells[1].index],
            claim.quantity.name,
            *_verdict(claim, moved.get(claim.cells[1].index)),
            decides=claim.quantity in {question.headlines[0], *LOSSES},
        )
        for claim in judged
    )
    differing = [line for line in comparison.differences if not line.startswith(("arm:", "scenario:"))]
    differing += _busier(baseline, candidate)
    notes = tuple(f"differs: {line}" for line in differing)
    outcome = Outcome(_name(candidate), _sentence(checked, differing, margin), checked, notes)
    return outcome, [
        Headline(check.where, claim.quantity, None if check.verdict == UNKNOWN else check.verdict, of_difference(claim))
        for check, claim in zip(checked, judged, strict=True)
        if claim.headline
    ]


def _moved(comparison: Comparison) -> dict[int, str]:
    """Return, by cell index of the candidate, how far R moved though nothing touches the Pi."""
    controls = {effect.cells[1].index: effect.control for effect in answer.of_comparison(comparison).effects}
    return {index: control.text for index, control in controls.items() if control and control.verdict == board.MOVED}


def _name(candidate: Bundle) -> str:
    return f"gate of {candidate.name.removeprefix('gate-')}"


def _busier(baseline: Bundle, candidate: Bundle) -> list[str]:
    """Return a finding if one run has many more noisy repetitions: the machine itself may make the difference."""
    noisy = [[r.validity == "noisy" for r in run.repetitions if r.counted] for run in (baseline, candidate)]
    shares = [sum(flags) / max(len(flags), 1) for flags in noisy]
    if abs(shares[1] - shares[0]) <= NOISIER:
        return []
    counts = " → ".join(f"{sum(flags)} of {len(flags)}" for flags in noisy)
    busy = "candidate" if shares[1] > shares[0] else "baseline"
    return [f"noisy repetitions: {counts}: the machine was busier under the {busy}; measure it again on a quiet one"]


def _untold(candidate: Bundle, why: str) -> Outcome:
    return Outcome(
        _name(candidate), f"{WORDS[UNKNOWN]}: {why}.", (Check(_name(candidate), "comparison", UNKNOWN, why),)
    )


def _verdict(claim: Claim, moved: str | None) -> tuple[str, str]:
    """Return the verdict on one headline, or on losses, and its reason."""
    verdict = _of_time(claim) if claim.quantity.is_time else _of_share(claim)
    if moved and (claim.quantity.is_latency or claim.quantity == MISSED) and verdict == FAIL:
        return UNKNOWN, f"{_figures(claim)}; {moved}"
    return verdict, _figures(claim) if verdict == PASS else "; ".join([_figures(claim), *claim.needs])


def _of_time(claim: Claim) -> str:
    flattered = claim.verdict == compare.UNKNOWN and claim.why
    if claim.high <= claim.margin and not flattered:
        return PASS
    # Two runs differ also by what the machine did between them: the margin is there for that, and nobody fails by less.
    return FAIL if claim.sure and claim.difference > claim.margin else UNKNOWN


def _of_share(claim: Claim) -> str:
    if claim.sure and claim.difference > 0:
        return FAIL
    return PASS if claim.difference <= POINTS else UNKNOWN


def _figures(claim: Claim) -> str:
    quantity = claim.quantity
    values = f"{quantity.text(claim.a)} → {quantity.text(claim.b)}"
    if claim.percent:
        value, low, high = map(three_digits, claim.percent)
        return f"{values} ({'+' if claim.difference > 0 else ''}{value} % [{low}, {high}])"
    difference = quantity.figure(claim.difference, signed=True)
    return f"{values} ({difference} {quantity.interval(claim.low, claim.high)})"


def _sentence(checked: tuple[Check, ...], differing: list[str], margin: float) -> str:
    verdict = worst([check.verdict for check in telling(checked)])
    first = next((check for check in telling(checked) if check.verdict == verdict), None)
    detail = f"{first.where}, {first.what} {first.why}" if first else "nothing could be compared"
    others = {other: dict.fromkeys(check.what for check in checked if check.verdict == other) for other in WORDS}
    if verdict == UNKNOWN and others[PASS]:
        detail += f"; not worse in {', '.join(others[PASS])}"
    if verdict == PASS and others[UNKNOWN]:
        detail += f"; of {', '.join(others[UNKNOWN])} it cannot tell"
    swapped = [line for line in differing if line.startswith(("broker", "image broker", "control-loop", "pi", "board"))]
    under = f" Differs: {'; '.join(swapped or differing)}." if differing else " Nothing that is recorded differs."
    return f"{WORDS[verdict]}: {detail}; margin {100 * margin:g} %.{under}"
