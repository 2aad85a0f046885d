# SPDX-License-Identifier: Apache-2.0
"""The glance: for each cell one line with median and tail of T, how sure they are, and the thesis' average."""

import html
import math
from collections.abc import Sequence

from analysis import thesis
from analysis.statistics import CellSummary, Estimate
from analysis.tables import milliseconds

NICE = (1, 2, 5)
ROOM = 1.15


def render(labels: Sequence[str], summaries: Sequence[CellSummary]) -> str:
    """The lines on one logarithmic axis in ms, and the key to them; nothing where nothing was answered."""
    shown = [(label, s) for label, s in zip(labels, summaries, strict=True) if "T" in s.estimates]
    if not shown:
        return ""
    values = [value for _, summary in shown for value in _values(summary)]
    low, high = min(values) / ROOM, max(values) * ROOM
    rows = "".join(f'<div class="name">{html.escape(label)}</div>{_track(s, low, high)}' for label, s in shown)
    ticks = "".join(f'<span style="left:{_at(t, low, high)}">{t / 1000:g}</span>' for t in _ticks(low, high))
    axis = f'<div class="name quiet">T in ms, logarithmic</div><div class="track axis">{ticks}</div>'
    return f'<div class="glance">{rows}{axis}</div>{_KEY}'


_KEY = (
    '<p class="quiet key"><i class="mark"></i>median <i class="mark tail"></i>99th percentile '
    '<i class="mark most"></i>slowest &nbsp; ◇ thesis, average &nbsp; wide bars: 95 % intervals</p>'
)


def _values(summary: CellSummary) -> list[float]:
    estimates = summary.estimates["T"]
    bounds = [bound for e in estimates.values() for bound in (e.low_us, e.high_us) if bound]
    published = thesis.published(summary.cell, "T", "avg")
    jitter = estimates.get("jitter")
    own = [e.value_us for e in estimates.values() if e is not jitter]
    skipped = {jitter.low_us, jitter.high_us} if jitter else set()
    return [*own, *(b for b in bounds if b not in skipped), *([published.value_us] if published else [])]


def _track(summary: CellSummary, low: float, high: float) -> str:
    estimates = summary.estimates["T"]
    first, last = _at(estimates["min"].value_us, low, high), _share(estimates["max"].value_us, low, high)
    start = _share(estimates["min"].value_us, low, high)
    parts = [f'<span class="reach" style="left:{first};width:{last - start:.2f}%"></span>']
    parts += [_estimate(estimates["p50"], "", low, high)] if "p50" in estimates else []
    parts += [_estimate(estimates["p99"], " tail", low, high)] if "p99" in estimates else []
    parts.append(f'<span class="mark most" style="left:{last:.2f}%"></span>')
    published = thesis.published(summary.cell, "T", "avg")
    if published:
        parts.append(f'<span class="mark thesis" style="left:{_at(published.value_us, low, high)}">◇</span>')
    words = ", ".join(f"{name} {milliseconds(e.value_us)} ms" for name, e in estimates.items())
    return f'<div class="track" role="img" aria-label="{words}" title="{words}">{"".join(parts)}</div>'


def _estimate(estimate: Estimate, kind: str, low: float, high: float) -> str:
    mark = f'<span class="mark{kind}" style="left:{_at(estimate.value_us, low, high)}"></span>'
    if estimate.low_us is None or estimate.high_us is None:
        return mark
    start, end = _share(max(estimate.low_us, low), low, high), _share(estimate.high_us, low, high)
    return f'<span class="sure{kind}" style="left:{start:.2f}%;width:{end - start:.2f}%"></span>{mark}'


def _ticks(low: float, high: float) -> list[float]:
    """Round values in µs; fewer of them where the axis spans much."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = NICE if high / low < 300 else (1,)
    found = [step * 10.0**power for power in powers for step in steps]
    inside = [tick for tick in found if low <= tick <= high]
    if len(inside) > 2:
        return inside
    step = 10.0 ** math.floor(math.log10((high - low) / 2))
    return [step * i for i in range(math.ceil(low / step), math.floor(high / step) + 1)][
        :: max(1, int((high - low) / step / 5))
    ]


def _share(value: float, low: float, high: float) -> float:
    return 100 * math.log(value / low) / math.log(high / low) if value > 0 else 0.0


def _at(value: float, low: float, high: float) -> str:
    return f"{_share(value, low, high):.2f}%"
