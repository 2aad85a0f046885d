# SPDX-License-Identifier: Apache-2.0
"""The answer of a run: the question it was made for, what its headline says, how sure that is, and what to read beside.

Where arms were compared, each further arm is an `Effect` against the first one under the same conditions; a run without
arms answers with the headline's value in each cell (`Level`). Page, terminal and gate read this and compute nothing.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from analysis.judging import compare, headline
from analysis.judging.compare import FASTER, FEWER, MORE, SAME, SLOWER, UNKNOWN, Claim, Comparison
from analysis.judging.control import board
from analysis.judging.control.board import Control
from analysis.judging.headline import Question
from analysis.reading import labels
from analysis.reading.bundle import Bundle, Cell
from analysis.statistics import losses, recovery
from analysis.statistics.estimate import Interval
from analysis.statistics.losses import Losses
from analysis.statistics.per_cell import CellSummary
from analysis.statistics.quantity import RECOVERY, Quantity, plural, three_digits

ORDER = {FASTER: 0, FEWER: 0, SAME: 1, UNKNOWN: 2, MORE: 3, SLOWER: 3}


@dataclass(frozen=True)
class Effect:
    """One arm (B) against the one it is compared with (A): the label of each, and every claim, the headlines first."""

    a: str
    b: str
    cells: tuple[Cell, Cell]
    claims: tuple[Claim, ...]
    control: Control | None

    @property
    def headline(self) -> Claim:
        """The claim that the run was made for."""
        return self.claims[0]

    def claim(self, metric: str, statistic: str) -> Claim | None:
        """Return the claim on one statistic; None where it could not be made."""
        return next((c for c in self.claims if c.quantity == Quantity(metric, statistic)), None)


@dataclass(frozen=True)
class Level:
    """The headline's value in one cell: None where too few cycles support it, infinite where losses cut it."""

    label: str
    summary: CellSummary
    quantity: Quantity
    interval: Interval | None


@dataclass(frozen=True)
class Answer:
    """Everything that the first screen shows; `effects` are ranked, the largest gain on the headline first."""

    question: Question
    sentence: str
    effects: tuple[Effect, ...]
    levels: tuple[Level, ...]
    losses: tuple[Losses, ...]
    floor_us: float | None
    notes: tuple[str, ...]

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Every claim of every effect."""
        return tuple(claim for effect in self.effects for claim in effect.claims)


def of(bundle: Bundle, summaries: Sequence[CellSummary]) -> Answer:
    """Return the answer of a run; raise `BundleError` where its question cannot be read."""
    question = headline.of(bundle)
    claims, notes = compare.within(bundle)
    names = labels.of_cells(bundle.cells)
    effects = tuple(_ranked(_effects(claims, (names, names), (bundle, bundle), question)))
    levels = tuple(_levels(bundle, summaries, question))
    all_losses = losses.of(bundle)
    sentence = _sentence(effects, levels, all_losses)
    # Where something broke, how long that lasted is what the run was made for.
    if broken := recovery.of(bundle):
        sentence = f"{recovery.sentence(broken)} {sentence}"
    return Answer(
        question, sentence, effects, levels, all_losses, bundle.floor_us, (*_beside(bundle, question), *notes)
    )


def of_comparison(comparison: Comparison) -> Answer:
    """Return the answer of a comparison: B against A, with A's question."""
    question = headline.of(comparison.a.bundle)
    names = [
        {
            index: f"{side} ({label})" if len(chosen.cells) > 1 else side
            for index, label in _labels(chosen.cells).items()
        }
        for side, chosen in (("A", comparison.a), ("B", comparison.b))
    ]
    bundles = comparison.a.bundle, comparison.b.bundle
    effects = tuple(_ranked(_effects(comparison.claims, (names[0], names[1]), bundles, question)))
    # Two arms of one bundle are two sides as well, though a cell on both is counted once.
    sides = bundles[:1] if bundles[0].folder.resolve() == bundles[1].folder.resolve() else bundles
    indices = [{claim.cells[side].index for claim in comparison.claims} for side in (0, 1)]
    indices = [indices[0] | indices[1]] if len(sides) == 1 else indices
    lost = tuple(
        cell_losses
        for bundle, chosen in zip(sides, indices, strict=True)
        for cell_losses in losses.of(bundle)
        if cell_losses.cell.index in chosen
    )
    notes = (*_beside(comparison.a.bundle, question), *comparison.notes)
    return Answer(question, _sentence(effects, (), lost), effects, (), lost, comparison.a.bundle.floor_us, notes)


def _labels(cells: Sequence[Cell]) -> dict[int, str]:
    return labels.of_cells(cells)


def _beside(bundle: Bundle, question: Question) -> Iterator[str]:
    """Yield the study's own caveats, and a note where its headline had to be guessed."""
    if note := bundle.plan.get("note"):
        yield str(note)
    if not question.recorded:
        named = " and ".join(quantity.name for quantity in question.headlines)
        yield f"the bundle does not say what its headline is; {named} is what such runs have today"


def _effects(
    claims: Sequence[Claim],
    names: tuple[Mapping[int, str], Mapping[int, str]],
    bundles: tuple[Bundle, Bundle],
    question: Question,
) -> Iterator[Effect]:
    by_cells: dict[tuple[int, int], list[Claim]] = {}
    for claim in claims:
        by_cells.setdefault((claim.cells[0].index, claim.cells[1].index), []).append(claim)
    for (a, b), pair_claims in by_cells.items():
        first = sorted(pair_claims, key=lambda claim: _rank(claim.quantity, question.headlines))
        control = board.control_of(first, bundles)
        yield Effect(names[0][a], names[1][b], first[0].cells, tuple(first), control)


def _rank(quantity: Quantity, headlines: Sequence[Quantity]) -> int:
    return headlines.index(quantity) if quantity in headlines else len(headlines)


def _ranked(effects: Iterator[Effect]) -> list[Effect]:
    return sorted(effects, key=lambda e: (ORDER[e.headline.verdict], e.headline.difference))


def _levels(bundle: Bundle, summaries: Sequence[CellSummary], question: Question) -> Iterator[Level]:
    names = labels.of_cells(bundle.cells)
    for summary in summaries:
        for quantity in question.headlines:
            yield Level(names[summary.cell.index], summary, quantity, summary.interval(quantity))


def _sentence(effects: Sequence[Effect], levels: Sequence[Level], all_losses: Sequence[Losses]) -> str:
    sentences = list(_of_effects(effects)) if effects else list(_of_levels(levels))
    return " ".join([*sentences, _of_losses(all_losses)]) if sentences else "Nothing: no repetition counts."


def _of_effects(effects: Sequence[Effect]) -> Iterator[str]:
    """Yield a sentence for each arm with a verdict, then those without one, greater losses, and disturbed boards."""
    decided = [effect for effect in effects if effect.headline.verdict != UNKNOWN]
    if decided and decided[0].headline.metric == RECOVERY:
        yield from _of_recoveries(decided)
    else:
        yield from map(_effect_sentence, decided)
    open_ = [effect for effect in effects if effect.headline.verdict == UNKNOWN]
    if open_:
        yield _open(open_, alone=not decided)
    yield from (_loses(effect) for effect in effects if _loses(effect))
    for effect in effects:
        if effect.control and effect.control.verdict == board.MOVED:
            yield f"{_capital(_short(effect)[0])}: {effect.control.text}."


def _of_recoveries(effects: Sequence[Effect]) -> Iterator[str]:
    """Yield a sentence for each verdict; the recovery times themselves stand in the sentence before."""
    by_words: dict[tuple[str, str], list[str]] = {}
    for effect in effects:
        b, a = _short(effect)
        by_words.setdefault((effect.headline.words, a), []).append(b)
    for (words, a), arms in by_words.items():
        name = effects[0].headline.quantity.name
        yield f"{_capital(words)} {'as' if words.startswith(SAME) else 'than'} {a} in {name}: {', '.join(arms)}."


def _effect_sentence(effect: Effect) -> str:
    claim, (b, a) = effect.headline, _short(effect)
    name, values = claim.quantity.name, f"{claim.quantity.text(claim.b)} against {claim.quantity.text(claim.a)}"
    if claim.verdict == SAME:
        return f"{_capital(b)}: {claim.words} as {a} in {name} ({values})."
    if not claim.quantity.is_time:
        return f"{_capital(b)}: {claim.verdict} {claim.quantity.counted} than {a}, {values} ({_amount(claim)})."
    if claim.cut and claim.quantity.is_latency:
        values = f"which losses cut, against {claim.quantity.text(claim.a)}"
        return f"{_capital(b)}: {claim.verdict} than {a} in {name}, {values}."
    return f"{_capital(b)}: {claim.verdict} than {a} in {name}, {values} ({_amount(claim)})."


def _loses(effect: Effect) -> str:
    """Return a sentence if B surely loses more and the headline is about something else; otherwise nothing."""
    lost = effect.claim("lost", "share_percent")
    if lost is None or lost.verdict != MORE or effect.headline is lost:
        return ""
    return f"{_capital(_short(effect)[0])} loses {lost.quantity.interval(lost.low, lost.high)} more of its cycles."


def _amount(claim: Claim) -> str:
    if claim.percent:
        value, low, high = (three_digits(x) for x in claim.percent)
        return f"{value} % [{low}, {high}]"
    interval = claim.quantity.interval(claim.low, claim.high)
    return f"{claim.quantity.text(claim.difference, signed=True)}, 95 % interval {interval}"


def _open(effects: Sequence[Effect], *, alone: bool) -> str:
    """Return the sentence on arms without a verdict; it gives a reason only where all of them share it."""
    claim = effects[0].headline
    detectable = [e.headline.detectable for e in effects if e.headline.detectable is not None]
    texts = dict.fromkeys(claim.quantity.text(bound(detectable)) for bound in (min, max) if detectable)
    could = f": this run could have found {' to '.join(texts)}" if texts else ""
    needed = [e.headline.repetitions for e in effects if e.headline.repetitions]
    settled = "the first of them" if len(effects) > 1 else "it"
    settle = f"; about {min(needed):,} repetitions would settle {settled}" if needed else ""
    reasons = {effect.headline.why for effect in effects}
    why = f" ({claim.why})" if claim.why and len(reasons) == 1 else ""
    start = "Cannot tell" if alone else "It cannot tell"
    return f"{start} whether {_whether(effects)} in {claim.quantity.name}{why}{could}{settle}."


def _whether(effects: Sequence[Effect]) -> str:
    """Return `fifo both differs from none`; of many effects only their number."""
    names, references = zip(*map(_short, effects), strict=True)
    if len(set(references)) > 1:
        return f"any of {len(names)} cells differs from the one it is compared with"
    if len(names) > recovery.FEW:
        return f"any of {len(names)} other arms differs from {references[0]}"
    return f"{' or '.join(filter(None, (', '.join(names[:-1]), names[-1])))} differs from {references[0]}"


def _short(effect: Effect) -> tuple[str, str]:
    """Return the labels of B and A without the conditions that both begin with."""
    a, b = effect.a.split(", "), effect.b.split(", ")
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False))
    shared = min(len(list(same)), len(a) - 1, len(b) - 1)
    return ", ".join(b[shared:]), ", ".join(a[shared:])


def _of_levels(levels: Sequence[Level]) -> Iterator[str]:
    by_label: dict[str, list[str]] = {}
    for level in levels:
        if level.quantity.metric != RECOVERY:  # which has a sentence of its own
            by_label.setdefault(level.label, []).append(_level(level))
    yield from (f"{_capital(label)}: {', '.join(parts)}." for label, parts in by_label.items())


def _level(level: Level) -> str:
    quantity, interval = level.quantity, level.interval
    if interval is None:
        return f"{quantity.name} not supported by so few cycles"
    sure = "" if interval.low is None or interval.high is None else f" {quantity.bounds(interval.low, interval.high)}"
    return f"{quantity.name} {quantity.text(interval.value)}{sure}"


def _of_losses(all_losses: Sequence[Losses]) -> str:
    lost, offered = sum(cell.lost for cell in all_losses), sum(cell.offered for cell in all_losses)
    aside = sum(cell.set_aside_lost for cell in all_losses)
    words = f"{lost:,} of {offered:,} cycles were lost" if lost else f"None of {offered:,} cycles was lost"
    silent = sum(cell.silent for cell in all_losses)
    words += f"; {plural(silent, 'repetition')} answered nothing" if silent else ""
    return words + (f"; {aside:,} more in repetitions that were set aside." if aside else ".")


def _capital(text: str) -> str:
    """Return the text with a capital first letter; a variable's value (`clock:step:180s`) stays as it is typed."""
    return text if ":" in text.partition(" ")[0] else text[:1].upper() + text[1:]
