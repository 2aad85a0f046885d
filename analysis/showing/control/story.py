# SPDX-License-Identifier: Apache-2.0
"""The story that runs of the control loop's scenarios tell together: what stress costs, and what undoes it.

It is made of claims, never of expectations: each sentence names the verdict, the statistic, and where it holds.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from analysis.judging import compare
from analysis.judging.compare import FASTER, SAME, SLOWER, UNKNOWN, Claim
from analysis.reading import control
from analysis.reading.bundle import Bundle, BundleError
from analysis.reading.selection import Selection
from analysis.showing.forest import KINDS, Panel, Row
from analysis.statistics.per_cell import CellSummary
from analysis.statistics.quantity import Quantity

TAIL, MEDIAN = Quantity(control.REMAINDER, "p99"), Quantity(control.REMAINDER, "p50")
BOARD = Quantity(control.BOARD, "p99")

Read = tuple[Bundle, tuple[CellSummary, ...]]


@dataclass(frozen=True)
class Chapter:
    """A difference between two scenarios that the story is made of: what B has that A has not."""

    a: str
    b: str
    name: str


CHAPTERS = (
    Chapter("1", "2", "CPU stress"),
    Chapter("2", "4", "Priority on the broker alone, under stress,"),
    Chapter("2", "5", "Priority on broker and client, under stress,"),
    Chapter("1", "5", "Stress with priority on broker and client, beside no stress,"),
    Chapter("0", "3", "CPU stress with an ideal board"),
    Chapter("3", "6", "Priority on the broker alone, ideal board, under stress,"),
    Chapter("1", "7", "The flood"),
)


@dataclass(frozen=True)
class JudgedChapter:
    """A chapter with its claims."""

    chapter: Chapter
    claims: tuple[Claim, ...]

    def of(self, quantity: Quantity) -> list[Claim]:
        """Return the claims on one quantity, one for each pair of cells."""
        return [claim for claim in self.claims if claim.quantity == quantity]


def chapters(runs: Sequence[Read]) -> tuple[JudgedChapter, ...]:
    """Return the chapters that the runs, all of one family, allow; none but of the control loop's family."""
    return tuple(_chapters(runs)) if runs and control.is_family(runs[0][0].family) else ()


def _chapters(runs: Sequence[Read]) -> Iterator[JudgedChapter]:
    by_scenario: dict[str, Bundle] = {}
    for bundle, _ in runs:
        for cell in bundle.cells:
            by_scenario.setdefault(cell.scenario, bundle)
    for chapter in CHAPTERS:
        if chapter.a in by_scenario and chapter.b in by_scenario:
            sides = [_side(by_scenario[name], name) for name in (chapter.a, chapter.b)]
            try:
                yield JudgedChapter(chapter, compare.compare(*sides, force=True).claims)
            except BundleError:
                continue  # no interval and QoS in common, or nothing answered: the tables show it


def _side(bundle: Bundle, scenario: str) -> Selection:
    return Selection(f"scenario {scenario}", bundle, tuple(cell for cell in bundle.cells if cell.scenario == scenario))


def sentences(chapters: Sequence[JudgedChapter]) -> tuple[str, ...]:
    """Return the story: first the gist, then a sentence a chapter; nothing without chapters."""
    return tuple(_sentences(chapters))


def _sentences(chapters: Sequence[JudgedChapter]) -> Iterator[str]:
    """Yield the gist (what stress costs, which priority undoes it, whether R moved), then a sentence a chapter."""
    by_pair = {(judged.chapter.a, judged.chapter.b): judged for judged in chapters}
    if gist := "; ".join(_gist(by_pair)):
        yield f"{gist[0].upper()}{gist[1:]}."
    for judged in chapters:
        parts = [_part(judged.of(quantity), quantity) for quantity in (TAIL, MEDIAN, BOARD)]
        if any(parts):
            chapter = judged.chapter
            yield f"{chapter.name} ({chapter.b} against {chapter.a}): {'; '.join(filter(None, parts))}."


def _gist(by_pair: Mapping[tuple[str, str], JudgedChapter]) -> Iterator[str]:
    """Yield the parts of the gist, from the verdicts that hold at more than half of the intervals."""
    stress, broker, both, left = (by_pair.get(pair) for pair in (("1", "2"), ("2", "4"), ("2", "5"), ("1", "5")))
    if stress:
        tail, median = _mostly(stress.of(TAIL)), _mostly(stress.of(MEDIAN))
        costs = [name for name, verdict in (("the tail", tail), ("the median", median)) if verdict == SLOWER]
        spared = " but not shown in the median" if costs == ["the tail"] else ""
        yield f"stress costs {' and '.join(costs)} of O{spared}" if costs else "no cost of stress is shown"
    if broker:
        yield f"priority on the broker alone {_HELPS.get(_mostly(broker.of(TAIL)), 'has no gain that is shown')}"
    if both:
        helps = _mostly(both.of(TAIL)) == FASTER
        rest = _mostly(left.of(TAIL)) if left else UNKNOWN
        whole = {SAME: " and undoes the stress", FASTER: " and more than undoes the stress", SLOWER: ", not all of it"}
        words = f"takes the tail back{whole.get(rest, '')}" if helps else "has no gain in the tail that is shown"
        yield f"on broker and client it {words}"
    if stress:
        yield _MOVED.get(_mostly(stress.of(BOARD)), "whether R moved cannot be told")


_HELPS = {FASTER: "shortens the tail", SLOWER: "lengthens the tail", SAME: "changes nothing"}
_MOVED = {
    SAME: "R did not move",
    SLOWER: "R moved too: the board was disturbed, and what is said of T with it",
    FASTER: "R moved too: the board was disturbed, and what is said of T with it",
}


def _mostly(claims: Sequence[Claim]) -> str:
    """Return the verdict at more than half of the intervals, else `UNKNOWN`."""
    verdicts = Counter(claim.verdict for claim in claims)
    verdict, count = verdicts.most_common(1)[0] if verdicts else (UNKNOWN, 0)
    return verdict if 2 * count > len(claims) else UNKNOWN


def _part(claims: Sequence[Claim], quantity: Quantity) -> str:
    """Return claims in words: `p99 of O slower by 85–220 % at 20 and 10 ms, cannot tell at 100 ms`."""
    by_words: dict[str, list[Claim]] = {}
    for claim in claims:
        by_words.setdefault(claim.words, []).append(claim)
    parts = []
    for words, group in by_words.items():
        amounts = [abs(claim.percent[0]) for claim in group if claim.percent and claim.verdict not in {SAME, UNKNOWN}]
        by = f" by {_range(amounts)} %" if amounts else ""
        parts.append(f"{words}{by} {_where(group)}")
    return f"{quantity.name} {', '.join(parts)}" if parts else ""


def _range(values: Sequence[float]) -> str:
    low, high = round(min(values)), round(max(values))
    return f"{low}" if low == high else f"{low}–{high}"


def _where(claims: Sequence[Claim]) -> str:
    intervals = [f"{interval}" for interval in dict.fromkeys(claim.cells[1].on(control.INTERVAL) for claim in claims)]
    words = intervals[0] if len(intervals) == 1 else f"{', '.join(intervals[:-1])} and {intervals[-1]}"
    return f"at {words} ms"


def panels(chapters: Sequence[JudgedChapter]) -> Iterator[Panel]:
    """Yield panels for tail, median and the board's tail, a row a chapter and interval."""
    for quantity in (TAIL, MEDIAN, BOARD):
        rows = tuple(_row(judged.chapter, claim) for judged in chapters for claim in judged.of(quantity))
        drawable = [claim for judged in chapters for claim in judged.of(quantity) if not claim.cut and claim.a]
        if rows:
            margin = max((100 * claim.margin / claim.a for claim in drawable), default=0.0)
            yield Panel(f"{quantity.name}", "%", margin, quantity == TAIL, rows, 0)


def _row(chapter: Chapter, claim: Claim) -> Row:
    label = f"{chapter.name.rstrip(',')} ({chapter.b} against {chapter.a}), {claim.cells[1].on(control.INTERVAL)} ms"
    kind = KINDS.get(claim.verdict, "unknown")
    if claim.cut or claim.percent is None:
        amount = f"{claim.quantity.text(claim.a)} → {claim.quantity.text(claim.b)}"
        return Row(label, None, 0.0, 0.0, kind, claim.words, amount)
    value, low, high = claim.percent
    return Row(
        label, value, low, high, kind, claim.words, f"{value:+.0f} % [{low:+.0f}, {high:+.0f}]".replace("-", "−")
    )


CAUTION = (
    '<p class="quiet">Each scenario is a run of its own: whatever else changed on the host between two runs is part of '
    "their difference. Arms of one study are interleaved and share it. Intervals: 95 %, those of one pair of scenarios "
    "together. R is the board's share: where nothing touches the Pi it should not move.</p>"
)
