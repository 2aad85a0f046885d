# SPDX-License-Identifier: Apache-2.0
"""Everything that can be wrong with a result without making it unreadable, and what to do about each."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import scipy
from scipy import special

from analysis.reading import integrity
from analysis.reading.bundle import Bundle, Repetition
from analysis.statistics.bootstrap import MINIMUM_REPETITIONS
from analysis.statistics.per_cell import PERCENTILES, CellSummary, supported

NAMED = 3
SPREAD = 0.10
TREND = 0.05
FLOOR = 3.0
OMISSION = 0.10
SIGNIFICANCE = 0.01


class Kind(Enum):
    """A kind of warning: its text, and the remedy."""

    ENDED_EARLY = ("the run is {status}: {reason}", "run it again; until then these are the repetitions it finished")
    REFUSED = ("repetitions refused: {count} of {total}: {reason}", "`make doctor` says what this host lacks")
    NOISY = ("noisy repetitions: {count} of {total} counted: {reason}", "run it again on a quieter host")
    PROOF = (
        "{knob} on {service} has no proof in {count} of {total} repetitions",
        "do not attribute anything to it; run it again",
    )
    BROKEN = ("{knob} on {service} did not hold in {count} of {total} repetitions", "do not attribute anything to it")
    NO_INTERVAL = (
        "too few repetitions for intervals: {count}",
        f"set REPETITIONS=10; intervals need {MINIMUM_REPETITIONS}, verdicts 4 on each side",
    )
    NO_P99 = ("too few cycles for p99: {count}", "raise MESSAGES or REPETITIONS: p99 needs 299, p99.9 2995")
    SPREAD = (
        "repetitions disagree: their medians of {metric} vary by {percent:.0f} % (standard deviation)",
        "trust the intervals, not the averages; a quieter host, or more REPETITIONS",
    )
    TREND = (
        "{metric} drifts by {percent:+.0f} % from the first repetition to the last",
        "look for heat, a filling disk or a growing backlog; compare only arms interleaved in one run",
    )
    RAMP = (
        "{metric} changes by {percent:+.0f} % from the first half of a repetition to the second, in {count} of {total}",
        "something builds up while it runs: look at the timeline, raise WARMUP, or lengthen the interval",
    )
    FLOOR = (
        "{metric} p50 is {ratio:.1f} times the instrument's floor ({floor:.3f} ms, a TCP echo on the same stand)",
        "part of {metric} is the instrument: differences between conditions count, absolute values less",
    )
    NO_FLOOR = ("the instrument's floor was not measured", "`make bench` measures it on this host")
    CUT = (
        "{percent:.2f} % of cycles were lost, which cuts {statistic} and beyond; {means} are of the answered",
        "read losses beside latency; a lost cycle is worse than any answer",
    )
    OMISSION = (
        "p99 of {metric} from the intended time exceeds {metric}'s by {extra:.3f} ms: requests left late",
        "read {intended}; give the sender its own CPU or a longer interval",
    )


@dataclass(frozen=True)
class Caution:
    """A warning, about the whole run or one cell of it (`Warning` is Python's own)."""

    kind: Kind
    about: str
    text: str
    remedy: str

    @property
    def advice(self) -> str:
        """The remedy, as a sentence."""
        return f"{self.remedy[0].upper()}{self.remedy[1:]}."

    @property
    def line(self) -> str:
        """The warning in one line, as printed."""
        return f"{self.about}: {self.text}. {self.advice}"


def of(bundle: Bundle, summaries: Sequence[CellSummary]) -> tuple[Caution, ...]:
    """Return every warning, about the run first, then by cell; one that holds in several cells appears once."""
    run = itertools.chain(_of_run(bundle), _proofs(bundle))
    cells = (caution for summary in summaries for caution in _of_cell(bundle, summary))
    merged: dict[tuple[Kind, str], list[Caution]] = {}
    for caution in itertools.chain(run, cells):
        merged.setdefault((caution.kind, caution.text), []).append(caution)
    return tuple(replace(group[0], about=_names([caution.about for caution in group])) for group in merged.values())


def _names(about: Sequence[str]) -> str:
    if len(about) <= NAMED:
        return "; ".join(about)
    return f"{about[0]} and {len(about) - 1} more cells"


def _tell(kind: Kind, about: str, **values: object) -> Caution:
    text, remedy = kind.value
    return Caution(kind, about, text.format(**values), remedy.format(**values))


def _of_run(bundle: Bundle) -> Iterator[Caution]:
    name = bundle.name
    if bundle.status != "complete":
        reason = bundle.document.get("reason") or "ended early"
        yield _tell(Kind.ENDED_EARLY, name, status=bundle.status, reason=reason)
    refused = [r for r in bundle.repetitions if r.validity == "refused"]
    if refused:
        yield _tell(
            Kind.REFUSED, name, count=len(refused), total=len(bundle.repetitions), reason=_first_reason(refused)
        )
    counted = [r for r in bundle.repetitions if r.counted]
    noisy = [r for r in counted if r.validity == "noisy"]
    if noisy:
        yield _tell(Kind.NOISY, name, count=len(noisy), total=len(counted), reason=_first_reason(noisy))
    if counted and bundle.floor_us is None:
        yield _tell(Kind.NO_FLOOR, name)


def _proofs(bundle: Bundle) -> Iterator[Caution]:
    """Yield a warning for each requested knob without a proof that holds in every counted repetition."""
    by_knob: dict[tuple[str, str], list[bool | None]] = {}
    for _, service, knob, holds in integrity.proofs(bundle):
        by_knob.setdefault((knob, service), []).append(holds)
    lacking: dict[tuple[Kind, str, int, int], list[str]] = {}
    for (knob, service), held in by_knob.items():
        for kind, count in ((Kind.PROOF, held.count(None)), (Kind.BROKEN, held.count(False))):
            if count:
                lacking.setdefault((kind, knob, count, len(held)), []).append(service)
    for (kind, knob, count, total), services in lacking.items():
        yield _tell(kind, bundle.name, knob=knob, service=", ".join(services), count=count, total=total)


def _of_cell(bundle: Bundle, summary: CellSummary) -> Iterator[Caution]:
    about = summary.cell.label
    if summary.repetitions < MINIMUM_REPETITIONS:
        yield _tell(Kind.NO_INTERVAL, about, count=summary.repetitions)
    if not supported(PERCENTILES["p99"], summary.counts.offered):
        yield _tell(Kind.NO_P99, about, count=summary.counts.offered)
    yield from _losses(summary)
    if summary.cell.family.round_trip in summary.distributions:
        yield from _stability(bundle, summary)
        yield from _instrument(bundle, summary)


def _losses(summary: CellSummary) -> Iterator[Caution]:
    share = summary.counts.lost / summary.counts.offered if summary.counts.offered else 0.0
    means = " and ".join(["means", *(metric.name for metric in summary.cell.family.metrics if metric.answered_only)])
    for statistic, q in PERCENTILES.items():
        if share > 1 - q:
            yield _tell(Kind.CUT, summary.cell.label, percent=100 * share, statistic=statistic, means=means)
            return


def _stability(bundle: Bundle, summary: CellSummary) -> Iterator[Caution]:
    """Warn where repetitions disagree or drift.

    Spread: standard deviation over mean above 10 %, as pyperf warns. Trend: Kendall's tau over the order of running
    (Mann 1945) at 1 %, and Theil's slope (1950) from first to last above 5 %.
    """
    yield from _ramp(summary)
    metric = bundle.round_trip
    distribution = summary.distributions[metric].of_answered()
    medians = distribution.quantiles(distribution.each(), 0.5)
    if len(medians) < MINIMUM_REPETITIONS or not medians.mean() > 0:
        return
    spread = float(medians.std(ddof=1) / medians.mean())
    if spread > SPREAD:
        yield _tell(Kind.SPREAD, summary.cell.label, metric=metric, percent=100 * spread)
    orders = {r.repetition: r.order for r in bundle.repetitions if r.cell == summary.cell.index}
    order = np.array([orders[number] for number in distribution.repetitions.tolist()])
    rank = order.argsort().argsort()
    first, second = np.triu_indices(len(medians), 1)
    slope = float(np.median((medians[second] - medians[first]) / (rank[second] - rank[first])))  # Theil 1950, Sen 1968
    drift = slope * (len(medians) - 1) / float(medians.mean())
    if abs(drift) > TREND and scipy.stats.kendalltau(rank, medians).pvalue < SIGNIFICANCE:
        yield _tell(Kind.TREND, summary.cell.label, metric=metric, percent=100 * drift)


def _ramp(summary: CellSummary) -> Iterator[Caution]:
    """Warn where the round trip climbs, or falls, by more than 5 % in most repetitions (sign test, 1 %)."""
    ramps = summary.ramps
    if not len(ramps) or abs(float(np.median(ramps))) <= TREND:
        return
    alike = max(int((ramps > 0).sum()), int((ramps < 0).sum()))
    if 2 * special.bdtrc(alike - 1, len(ramps), 0.5) < SIGNIFICANCE:
        share = 100 * float(np.median(ramps))
        metric = summary.cell.family.round_trip
        yield _tell(Kind.RAMP, summary.cell.label, metric=metric, percent=share, count=alike, total=len(ramps))


def _instrument(bundle: Bundle, summary: CellSummary) -> Iterator[Caution]:
    family, about = summary.cell.family, summary.cell.label
    rest = summary.estimates.get(family.remainder, {}).get("p50")
    if bundle.floor_us and rest:
        ratio = rest.value_us / bundle.floor_us
        if ratio < FLOOR:
            yield _tell(Kind.FLOOR, about, metric=family.remainder, ratio=ratio, floor=bundle.floor_us / 1000)
    sent, due = (summary.estimates.get(metric, {}).get("p99") for metric in (family.round_trip, family.intended))
    if sent and due:
        extra_us = due.value_us - sent.value_us
        if extra_us > OMISSION * sent.value_us:
            names = {"metric": family.round_trip, "intended": family.intended}
            yield _tell(Kind.OMISSION, about, **names, extra=extra_us / 1000)


def _first_reason(repetitions: Sequence[Repetition]) -> str:
    return next((r.reasons[0] for r in repetitions if r.reasons), "no reason recorded")
