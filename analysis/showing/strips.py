# SPDX-License-Identifier: Apache-2.0
"""The figures of the report's first screen as tables with a drawn column: forest, levels, repetitions in order.

Plain HTML and SVG, so that they print, stay sharp, need no script, and read aloud as the tables they are.
"""

import html
import math
from collections.abc import Callable, Mapping, Sequence

from analysis.showing.control import thesis
from analysis.showing.findings import rough
from analysis.showing.forest import MARKS, Panel
from analysis.showing.forest import Row as ForestRow
from analysis.showing.repetitions import STATES, InOrder
from analysis.showing.repetitions import Row as OrderRow
from analysis.statistics.per_cell import CellSummary
from analysis.statistics.quantity import Quantity, percentage

ROWS = 24
"""The most cells in the table of levels: the others stand in the latency table."""
ROOM = 1.15
WIDE = 300.0
"""A logarithmic axis that spans more has ticks at powers of ten only."""

Place = Callable[[float], str]
"""Where a value stands on an axis, in %."""


def forest(panel: Panel) -> str:
    """Return one panel of the forest plot as HTML."""
    low, high = panel.reach

    def at(value: float) -> str:
        return f"{100 * (min(max(value, low), high) - low) / (high - low):.2f}%"

    rows = "".join(_forest_row(row, panel, at) for row in panel.rows)
    step = _step(high - low)
    ticks = [step * i for i in range(math.ceil(low / step), math.floor(high / step) + 1)]
    axis = _axis([(at(tick), f"{'+' if tick > 0 else ''}{tick:g}".replace("-", "−")) for tick in ticks])
    unit = "% of its value" if panel.unit == "%" else panel.unit
    words = f"difference in {unit}; less is better"
    more = (
        f'<p class="quiet">{panel.left_out} more, which differ less or of which less is sure, are not drawn.</p>'
        if panel.left_out
        else ""
    )
    if any(row.value is not None and not (low <= row.low and row.high <= high) for row in panel.rows):
        more += '<p class="quiet">An arrow: the interval goes on beyond the axis.</p>'
    head = _head(("", words, "difference [95 %]", "verdict"))
    return _figure("forest", panel.title, f"{head}<tbody>{rows}{_axis_row(axis, 2)}</tbody>", more)


def _forest_row(row: ForestRow, panel: Panel, at: Place) -> str:
    zero, left, right = at(0), float(at(-panel.margin)[:-1]), float(at(panel.margin)[:-1])
    parts = [
        f'<rect class="margin" x="{left:.2f}%" y="0" width="{right - left:.2f}%" height="100%"/>',
        f'<line class="zero" x1="{zero}" x2="{zero}" y1="0" y2="100%"/>',
    ]
    if row.value is not None:
        bounds = [max(min(bound, 1e30), -1e30) for bound in (row.low, row.high)]
        low, high = map(at, bounds)
        parts.append(f'<line class="interval" x1="{low}" x2="{high}" y1="50%" y2="50%"/>')
        for bound, x, arrow in zip(bounds, (low, high), ("M7-5L0 0l7 5", "M-7-5L0 0l-7 5"), strict=True):
            end = '<path class="interval" d="M0-5v10"/>' if panel.reach[0] <= bound <= panel.reach[1] else ""
            end = end or f'<path class="interval beyond" d="{arrow}"/>'
            parts.append(f'<svg x="{x}" y="50%" overflow="visible">{end}</svg>')
        parts.append(f'<circle class="value" cx="{at(row.value)}" cy="50%" r="5"/>')
    return (
        f'<tr class="{row.kind}"><th scope="row">{_text(row.label)}</th>{_strip(parts)}'
        f'<td class="number">{_text(row.amount)}</td>'
        f'<td class="verdict"><span aria-hidden="true">{MARKS[row.kind]}</span> {_text(row.verdict)}</td></tr>'
    )


def levels(named: Sequence[tuple[str, CellSummary]], metric: str) -> str:
    """Return median and tail of a metric in each cell with intervals, lost cycles and missed deadlines."""
    shown = [(label, s) for label, s in named[:ROWS] if metric in s.estimates]
    if not shown:
        return ""
    values = [value for _, summary in shown for value in _values(summary, metric)]
    low, high = min(values) / ROOM, max(values) * ROOM

    def at(value: float) -> str:
        return f"{100 * math.log(min(max(value, low), high) / low) / math.log(high / low):.2f}%"

    rows = "".join(
        _level_row(label, summary, metric, at, beside_thesis=beside)
        for (label, summary), beside in zip(shown, _first_of_its_conditions(shown), strict=True)
    )
    axis = _axis([(at(tick), f"{tick / 1000:g}") for tick in _ticks(low, high)])
    words = (f"{metric} in ms, logarithmic", f"median, p99 of {metric} in ms", "lost", "missed")
    left = len(named) - len(shown)
    more = f'<p class="quiet">{left} more cells are in the table below.</p>' if left else ""
    published = any(thesis.published(summary.cell, metric, "avg") for _, summary in shown)
    body = f"{_head(('', *words))}<tbody>{rows}{_axis_row(axis, 3)}</tbody>"
    title = "What each cell measured: median and tail, lost cycles, and answers later than their deadline"
    return _figure("levels", title, body, more + _LEVELS_KEY.format(thesis=_THESIS_KEY if published else ""))


_LEVELS_KEY = (
    '<p class="quiet key"><span><svg><circle class="median" cx="50%" cy="50%" r="5"/></svg>median</span> '
    '<span><svg><rect class="tail" x="2" y="2" width="10" height="10"/></svg>p99</span> '
    '<span><svg><line class="reach" x1="7" x2="7" y1="1" y2="13"/></svg>slowest</span> {thesis}'
    "<span>wide bars: 95 % interval across repetitions</span></p>"
)
_THESIS_KEY = '<span><svg><path class="thesis" d="M7 1l6 6-6 6-6-6z"/></svg>thesis, average</span> '


def _values(summary: CellSummary, metric: str) -> list[float]:
    estimates = {name: e for name, e in summary.estimates[metric].items() if name in {"min", "p50", "p99", "max"}}
    numbers = [n for e in estimates.values() for n in (e.value_us, e.low_us, e.high_us) if n and math.isfinite(n)]
    published = thesis.published(summary.cell, metric, "avg")
    return [max(number, 1.0) for number in numbers] + ([published.value_us] if published else [])


def _first_of_its_conditions(named: Sequence[tuple[str, CellSummary]]) -> list[bool]:
    """Return which cells are the first of their conditions; the thesis, without arms, is shown beside those."""
    keys = [(s.cell.scenario, *s.cell.values) for _, s in named]
    return [keys.index(key) == i for i, key in enumerate(keys)]


def _level_row(label: str, summary: CellSummary, metric: str, at: Place, *, beside_thesis: bool) -> str:
    estimates = summary.estimates[metric]
    first, last = at(estimates["min"].value_us), at(estimates["max"].value_us)
    parts = [f'<line class="reach" x1="{first}" x2="{last}" y1="50%" y2="50%"/>']
    parts.append(f'<line class="reach" x1="{last}" x2="{last}" y1="25%" y2="75%"/>')
    for name, kind in (("p50", "median"), ("p99", "tail")):
        estimate = estimates.get(name)
        if estimate and math.isfinite(estimate.value_us):
            if estimate.low_us is not None and estimate.high_us is not None and math.isfinite(estimate.high_us):
                ends = f'x1="{at(estimate.low_us)}" x2="{at(estimate.high_us)}"'
                parts.append(f'<line class="sure {kind}" {ends} y1="50%" y2="50%"/>')
            x = at(estimate.value_us)
            parts.append(_MEDIAN.format(x=x) if kind == "median" else _TAIL.format(x=x))
    published = thesis.published(summary.cell, metric, "avg")
    if published and beside_thesis:
        x = at(published.value_us)
        parts.append(f'<svg x="{x}" y="50%" overflow="visible"><path class="thesis" d="M0-6l6 6-6 6-6-6z"/></svg>')
    words = ", ".join("lost" if name in summary.cut[metric] else _value(estimates, name) for name in ("p50", "p99"))
    counts, misses = summary.counts, summary.misses
    return (
        f'<tr><th scope="row">{_text(label)}</th>{_strip(parts)}<td class="number">{words}</td>'
        f"{_share(counts.lost, counts.offered, 'lost')}{_share(misses.count, counts.offered, 'missed')}</tr>"
    )


_MEDIAN = '<circle class="median" cx="{x}" cy="50%" r="5"/>'
_TAIL = '<svg x="{x}" y="50%" overflow="visible"><rect class="tail" x="-5" y="-5" width="10" height="10"/></svg>'


def _value(estimates: Mapping[str, object], name: str) -> str:
    estimate = estimates.get(name)
    value = getattr(estimate, "value_us", None)
    return "–" if value is None else "lost" if math.isinf(value) else rough(value)


def _share(count: int, offered: int, name: str) -> str:
    kind = " some" if count else ""
    share = f" ({percentage(count, offered)})" if count and offered else ""
    return f'<td class="number{kind}" data-name="{name}">{count:,}{share}</td>'


def in_order(ordered: InOrder) -> str:
    """Return a row of dots a cell: value upwards, order of running to the right."""
    if not ordered.rows:
        return ""
    low, high = ordered.reach_us
    log = low > 0 and high / low > 5

    def up(value: float) -> str:
        if math.isinf(value):
            return "8%"
        share = math.log(value / low) / math.log(high / low) if log else (value - low) / max(high - low, 1e-9)
        return f"{88 - 68 * share:.1f}%"

    def at(order: float) -> str:
        return f"{1 + 98 * order / max(ordered.last, 1):.2f}%"

    rows = "".join(_order_row(row, ordered.quantity, at, up) for row in ordered.rows)
    scale = f"{rough(low)} to {rough(high)} ms{', logarithmic' if log else ''}"
    title = f"Every repetition in the order run: {ordered.name}, each row from {scale}"
    more = f'<p class="quiet">{ordered.left_out} more cells are not drawn.</p>' if ordered.left_out else ""
    body = f"{_head(('', 'first to last repetition of the run', 'lowest, median, highest in ms'))}<tbody>{rows}</tbody>"
    return _figure("order", title, body, more + _order_key(ordered))


def _order_row(row: OrderRow, quantity: Quantity, at: Place, up: Place) -> str:
    values = sorted(dot.value_us for dot in row.dots if dot.state != "aside") or [math.inf]
    middle = values[len(values) // 2]
    parts = [f'<line class="middle" x1="0" x2="100%" y1="{up(middle)}" y2="{up(middle)}"/>']
    for dot in row.dots:
        mark = _MARK["lost" if math.isinf(dot.value_us) else dot.state]
        lost = f", {dot.lost} lost" if dot.lost else ""
        tooltip = f"<title>number {dot.order + 1}: {quantity.text(dot.value_us)}{lost}, {STATES[dot.state]}</title>"
        parts.append(f'<svg x="{at(dot.order)}" y="{up(dot.value_us)}" overflow="visible">{mark}{tooltip}</svg>')
    words = ", ".join(quantity.figure(value) for value in (values[0], middle, values[-1]))
    number = f'<td class="number" data-name="lowest, median, highest">{words}</td>'
    return f'<tr><th scope="row">{_text(row.label)}</th>{_strip(parts)}{number}</tr>'


_MARK = {
    "valid": '<circle class="dot" r="3.5"/>',
    "noisy": '<circle class="dot noisy" r="3.5"/>',
    "aside": '<path class="aside" d="M-3.5-3.5l7 7m0-7l-7 7"/>',
    "lost": '<path class="cut" d="M0-5l5 9h-10z"/>',
}


def _order_key(ordered: InOrder) -> str:
    names = STATES | {"lost": ordered.cut}
    shown = (
        f'<span><svg><svg x="7" y="7" overflow="visible">{mark}</svg></svg>{names[state]}</span> '
        for state, mark in _MARK.items()
        if state in ordered.states
    )
    return f'<p class="quiet key">{"".join(shown)}<span>line: the median</span></p>'


def _figure(kind: str, title: str, body: str, below: str) -> str:
    caption = f"<figcaption>{_text(title)}</figcaption>"
    return f'<figure class="{kind}">{caption}<table class="strips">{body}</table>{below}</figure>\n'


def _head(names: Sequence[str]) -> str:
    cells = "".join(f'<th scope="col">{_text(name)}</th>' if name else "<td></td>" for name in names)
    return f"<thead><tr>{cells}</tr></thead>"


def _strip(parts: Sequence[str]) -> str:
    return f'<td class="strip"><svg aria-hidden="true">{"".join(parts)}</svg></td>'


def _axis(ticks: Sequence[tuple[str, str]]) -> str:
    marks = (
        f'<line x1="{x}" x2="{x}" y1="0" y2="4"/><text x="{x}" y="15" text-anchor="middle">{words}</text>'
        for x, words in ticks
    )
    return f'<svg class="axis" aria-hidden="true">{"".join(marks)}</svg>'


def _axis_row(axis: str, after: int) -> str:
    return f'<tr class="axis"><td></td><td class="strip">{axis}</td>{"<td></td>" * after}</tr>'


def _step(span: float) -> float:
    """Return a round step that gives four to eight ticks."""
    raw = span / 6
    power = 10.0 ** math.floor(math.log10(raw))
    return next(power * step for step in (1, 2, 5, 10) if power * step >= raw)


def _ticks(low: float, high: float) -> list[float]:
    """Return round values in µs for a logarithmic axis: fewer where it spans much, even steps where it spans little."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if high / low < WIDE else (1,)
    inside = [tick for power in powers for step in steps if low <= (tick := step * 10.0**power) <= high]
    if len(inside) > 2:
        return inside
    step = _step(high - low)
    return [step * i for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _text(text: str) -> str:
    return html.escape(text)
