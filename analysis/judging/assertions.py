# SPDX-License-Identifier: Apache-2.0
"""What a run was to show (`ASSERT`), judged on the interval: it passes, fails, or cannot tell.

A point estimate on the right side of a limit shows nothing: a run half as long might lie on the other. A pass of
everything is as sure as each single one (intersection-union test: Berger 1982, Technometrics 24(4)); of many checks in
many cells one may fail wrongly in 1 of 40, each.
"""

import math
from collections.abc import Iterator, Sequence

from analysis.judging.checks import FAIL, PASS, UNKNOWN, Check, Outcome, worst
from analysis.reading import labels
from analysis.reading.bundle import Bundle, BundleError
from analysis.statistics.estimate import Interval
from analysis.statistics.per_cell import CellSummary
from analysis.statistics.quantity import Quantity
from schema import assertions
from schema.assertions import PERCENTILES, Assertion

LOST = Quantity("lost", "share_percent")
WORDS = {PASS: "As asserted", FAIL: "Not as asserted", UNKNOWN: "Cannot tell"}


def judge(bundle: Bundle, summaries: Sequence[CellSummary]) -> Outcome | None:
    """Check the plan's assertions in every cell; None if it has none. Raise `BundleError` where one cannot be read."""
    recorded = bundle.plan.get("assertions") or []
    if not recorded:
        return None
    try:
        asserted = assertions.parse(",".join(recorded), bundle.family.latencies)
    except ValueError as error:
        raise BundleError(f"{bundle.folder / 'bundle.json'}: plan.assertions: {error}") from error
    names = labels.of_cells(bundle.cells)
    judged = {summary.cell.index: summary for summary in summaries}
    if unknown := [one.text for one in asserted if one.arm not in {None, *(cell.arm for cell in bundle.cells)}]:
        raise BundleError(f"{bundle.folder / 'bundle.json'}: plan.assertions: {unknown[0]!r} is about no arm of it")
    checks = tuple(
        check
        for cell in bundle.cells
        for check in _of_cell(
            names[cell.index], judged.get(cell.index), [one for one in asserted if one.arm in {None, cell.arm}]
        )
    )
    notes = () if bundle.status == "complete" else (f"the run is {bundle.status}: more could have come",)
    return Outcome(f"assertions on {bundle.name}", _sentence(checks), checks, notes)


def _of_cell(name: str, summary: CellSummary | None, asserted: Sequence[Assertion]) -> Iterator[Check]:
    for one in asserted:
        verdict, why = (UNKNOWN, "no repetition counts") if summary is None else _check(summary, one)
        yield Check(name, one.text, verdict, why)


def _check(summary: CellSummary, asserted: Assertion) -> tuple[str, str]:
    quantity = Quantity(asserted.metric, asserted.statistic)
    interval = summary.interval(quantity)
    if interval is None:
        return UNKNOWN, f"the {quantity.name} is not supported by so few cycles"
    if math.isinf(interval.value) and quantity.is_latency:
        return _of_lost(summary, asserted, quantity)
    value = quantity.text(interval.value)
    if interval.low is None or interval.high is None:
        return UNKNOWN, f"{value}, without an interval: too few repetitions, or all alike"
    return _verdict(interval, asserted), f"{value} {quantity.interval(interval.low, interval.high)}"


def _of_lost(summary: CellSummary, asserted: Assertion, quantity: Quantity) -> tuple[str, str]:
    """Return verdict and reason for a quantile that falls on lost cycles: beyond any limit if it surely does."""
    lost, q = summary.interval(LOST), PERCENTILES.get(asserted.statistic)
    sure = lost is not None and lost.low is not None and q is not None and lost.low > 100 * (1 - q)
    verdict = UNKNOWN if not sure else FAIL if asserted.below else PASS
    return verdict, f"losses cut the {quantity.name}" + (f": {LOST.text(lost.value)} lost" if lost else "")


def _verdict(interval: Interval, asserted: Assertion) -> str:
    low, high = float(interval.low or 0), float(interval.high or 0)
    within, beyond = (high, low) if asserted.below else (-low, -high)
    limit = asserted.limit if asserted.below else -asserted.limit
    return PASS if within <= limit else FAIL if beyond >= limit else UNKNOWN


def _sentence(checks: Sequence[Check]) -> str:
    verdict = worst([check.verdict for check in checks])
    telling = [check for check in checks if check.verdict == verdict]
    if verdict == PASS:
        return f"{WORDS[PASS]}: {'; '.join(_shown(checks))}."
    details = "; ".join(f"{check.what} in {check.where}: {check.why}" for check in telling[:3])
    return f"{WORDS[verdict]}: {details}{'; …' if len(telling) > 3 else ''}."


def _shown(checks: Sequence[Check]) -> Iterator[str]:
    """Yield what was shown; statistics that hold in the same cells share one phrase."""
    cells: dict[str, list[str]] = {}
    for check in checks:
        cells.setdefault(check.what, []).append(check.where)
    for where in dict.fromkeys(map(tuple, cells.values())):
        shown = ", ".join(what for what, places in cells.items() if tuple(places) == where)
        yield f"{shown} in {where[0] if len(where) == 1 else f'all {len(where)} cells'}"
