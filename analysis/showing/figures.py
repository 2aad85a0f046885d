# SPDX-License-Identifier: Apache-2.0
"""Cumulative distributions as figures for papers: PNG, SVG and PDF, the same bytes each time.

Left, the distribution function on linear axes: where most answers lie. Right, its complement on logarithmic axes: the
tail, to the slowest single answer; a lost cycle is later than any, so that a line ends where losses end it. Up to three
lines have the 95 % interval across repetitions shaded. More lines than can be told apart are small multiples, each
beside the first.
"""

import hashlib
import math
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator, PercentFormatter

from analysis.judging import comparability
from analysis.reading import control, labels
from analysis.reading.arrays import Floats, Integers
from analysis.reading.bundle import Bundle, Cell
from analysis.reading.family import Family, Metric
from analysis.showing import conditions
from analysis.showing.control import thesis
from analysis.statistics import bootstrap
from analysis.statistics.distribution import Distribution
from analysis.statistics.per_cell import CellSummary
from analysis.statistics.quantity import Quantity, percentage

FORMATS: Mapping[str, Mapping[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito (2008), "Color universal design": told apart with any colour vision; yellow is too pale for a line."""
LINES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (1, 1.2)),
    (0, (6, 1.5, 1.2, 1.5)),
    (0, (9, 2)),
    (0, (3, 1, 1, 1, 1, 1)),
)
STYLE: Any = {
    "svg.hashsalt": "analysis",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
    "grid.linewidth": 0.4,
    "grid.color": "#d8d8d8",
    "lines.linewidth": 1.3,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
}
NOTICE = {"facecolor": "#fff1c9", "edgecolor": "#8a6100", "linewidth": 0.6, "boxstyle": "square,pad=0.25"}
MARKERS = "osD^vP"
LEGEND = 104
FILE_NAME = 120
"""Characters; of a longer name the end is a checksum."""
FOOTER = 138
"""Characters a line of the footer takes."""
BODY = 0.95
TOGETHER = 6
"""More lines than this are not told apart in one pair of axes, least of all in grey."""
BANDED = 3
"""More bands than this only hide each other."""
PANELS = 12
"""Small multiples in one figure; of more lines those are drawn whose p99 differs most from the first's."""
MOST = 24
"""Figures of distributions drawn for one bundle."""
POINTS = 2000
BAND_POINTS = 200


@dataclass(frozen=True)
class Curve:
    """A line of a figure, and its name in the legend."""

    label: str
    distribution: Distribution
    lost: int
    seed: tuple[int, ...]

    @property
    def offered(self) -> int:
        """Cycles answered and lost."""
        return self.distribution.total + self.lost


@dataclass(frozen=True)
class Plot:
    """A figure before it is drawn."""

    name: str
    title: str
    metric: Metric
    curves: tuple[Curve, ...]
    footer: tuple[str, ...]
    notices: tuple[str, ...]


def of_bundle(bundle: Bundle, summaries: Sequence[CellSummary]) -> Iterator[Plot]:
    """Yield a plot for each metric of each scenario, a line a cell; with arms, one for each place, a line an arm."""
    for name, title, members in _groups(summaries):
        names = labels.of_cells([member.cell for member in members])
        for metric in bundle.metrics:
            labelled = [(names[member.cell.index], bundle, member) for member in members]
            yield from _plot(name, title, metric, labelled)


def overlays(read: Sequence[tuple[Bundle, Sequence[CellSummary]]]) -> Iterator[Plot]:
    """Yield the thesis' comparisons, a plot a place on the axes, a line a scenario; all together where none applies.

    Raise `BundleError` where the runs are not of one family.
    """
    comparability.require_alike(*(bundle for bundle, _ in read))
    candidates = [(bundle, member) for bundle, summaries in read for member in summaries]
    for chosen, metrics in _pairings([member.cell for _, member in candidates]):
        group = [(bundle, member) for bundle, member in candidates if member.cell.scenario in chosen]
        for values in dict.fromkeys(member.cell.values for _, member in group):
            members = [(b, m) for b, m in group if m.cell.values == values]
            scenarios = list(dict.fromkeys(m.cell.scenario for _, m in members))
            labelled = [(_origin(b, m, members), b, m) for b, m in members]
            cell = members[0][1].cell
            title = ", ".join([f"Scenarios {', '.join(scenarios)}", *cell.titles])
            for metric in metrics if len(members) > 1 else ():
                yield from _plot(_file("-".join(scenarios), cell), title, cell.family.by_name[metric], labelled)


def _pairings(cells: Sequence[Cell]) -> Collection[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return which scenarios are laid over each other, and in which metrics."""
    given = {cell.scenario for cell in cells}
    published = thesis.COMPARISONS if cells and control.is_family(cells[0].family) else ()
    pairings = [(tuple(s for s in chosen if s in given), metrics) for chosen, metrics in published]
    applicable = dict.fromkeys(pairing for pairing in pairings if len(pairing[0]) > 1)
    return applicable or [(tuple(sorted(given)), tuple(cells[0].family.by_name) if cells else ())]


def _file(name: str, cell: Cell) -> str:
    """Return the file name of a figure of cells in the same place on the axes, safe in any file system."""
    places = (axis.slug(value) for axis, value in zip(cell.family.axes, cell.values, strict=True))
    whole = "-".join(["cdf", name, *places])
    checksum = hashlib.sha256(whole.encode()).hexdigest()[:12]
    return whole if len(whole) <= FILE_NAME else f"{whole[:FILE_NAME]}-{checksum}"


def _plot(name: str, title: str, metric: Metric, labelled: Sequence[tuple[str, Bundle, CellSummary]]) -> Iterator[Plot]:
    """Yield the plot of one metric, unless nothing was measured of it."""
    curves = tuple(
        Curve(
            label,
            member.distributions[metric.name],
            int(member.distributions[metric.name].lost.sum()),
            (int(bundle.plan["seed"]), member.cell.index),
        )
        for label, bundle, member in labelled
        if metric.name in member.distributions
    )
    bundles = list({id(bundle): bundle for _, bundle, _ in labelled}.values())
    notices = [line for bundle in bundles for line in _notices(bundle, alone=len(bundles) == 1)]
    footer = _footer(bundles, [member for *_, member in labelled])
    if curves:
        yield Plot(f"{name}-{metric.name}", title, metric, curves, footer, tuple(notices))


def save(plot: Plot, folder: Path) -> list[Path]:
    """Draw the figure in every format into `folder`, and return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{plot.name}.{suffix}" for suffix in FORMATS]
    with mpl.rc_context(STYLE):
        figure = draw(plot)
        for path, metadata in zip(paths, FORMATS.values(), strict=True):
            figure.savefig(path, dpi=200, metadata=metadata)
    return paths


def chosen(plots: Sequence[Plot], family: Family, headlines: Sequence[Quantity]) -> tuple[list[Plot], str]:
    """Return the plots to draw, all or only those of the metric that the run is about, and what was left out."""
    if len(plots) <= MOST and all(len(plot.curves) <= PANELS + 1 for plot in plots):
        return list(plots), ""
    metric = about(family, headlines)
    drawn = [plot for plot in plots if plot.metric.name == metric][:MOST]
    return drawn, f"{len(drawn)} of {len(plots)} figures are drawn: {metric} only, the first {MOST} at the most."


def about(family: Family, headlines: Sequence[Quantity]) -> str:
    """Return the metric of the first headline for which there are figures, else the round trip."""
    return next((quantity.metric for quantity in headlines if quantity.metric in family.by_name), family.round_trip)


def draw(plot: Plot) -> Figure:
    """Draw the plot: distribution left, tail right; or small multiples of the tail where there are many lines."""
    return _multiples(plot) if len(plot.curves) > TOGETHER else _pair(plot)


def _pair(plot: Plot) -> Figure:
    """Draw the distribution left, the tail right, the legend above, conditions below."""
    figure, (body, tail) = _sheet(plot, len(plot.curves), (1, 2), 2.6)
    for i, curve in enumerate(plot.curves):
        _draw_curve(body, tail, curve, i, banded=len(plot.curves) <= BANDED)
    _dress_body(body, plot)
    _dress_tail(tail, plot.curves)
    for axes in (body, tail):
        axes.set_xlabel(f"{plot.metric.name} in ms{', logarithmic' if axes is tail else ''}")
    tail.set_ylabel("cycles later than that, logarithmic\n(1 %: the 99th percentile)")
    handles, names = body.get_legend_handles_labels()
    _legend(figure, plot, handles, names)
    return figure


def _multiples(plot: Plot) -> Figure:
    """Draw a panel for the tail of each line beside the first one's."""
    first, *others = plot.curves
    shown = _most_different(first, others)
    columns = 3
    rows = math.ceil(len(shown) / columns)
    left_out = len(others) - len(shown)
    note = f"{left_out} lines whose p99 differs less are not drawn; summary.csv has them" if left_out else ""
    figure, axes = _sheet(plot, 1, (rows, columns), 1.75 * rows, note=note)
    for panel, curve in zip(axes, shown, strict=False):
        for drawn, style in ((first, 0), (curve, 1)):
            _draw_tail(panel, drawn, style)
        panel.set_title(curve.label + _lost(curve), fontsize=7, loc="left", pad=3)
        _dress_tail(panel, (first, *shown))
        panel.tick_params(labelsize=6.5)
    for panel in axes[len(shown) :]:
        panel.set_visible(False)
    for panel in axes[max(len(shown) - columns, 0) : len(shown)]:
        panel.set_xlabel(f"{plot.metric.name} in ms, logarithmic", fontsize=7)
    figure.supylabel("cycles later than that (1 %: the 99th percentile)", fontsize=7, x=0.012)
    lines = [mpl.lines.Line2D([], [], color=COLOURS[i], linestyle=LINES[i]) for i in range(2)]
    _legend(figure, plot, lines, [f"{first.label}{_lost(first)}", "the one named above the panel"])
    return figure


def _most_different(first: Curve, others: Sequence[Curve]) -> list[Curve]:
    """Return the lines whose p99 differs most from the first one's, as many as there is room for, in their order."""
    if len(others) <= PANELS:
        return list(others)
    level = math.log(_quantile(first.distribution, 0.99))
    far = sorted(others, key=lambda curve: -abs(math.log(_quantile(curve.distribution, 0.99)) - level))[:PANELS]
    return [curve for curve in others if any(curve is one for one in far)]


def points(distribution: Distribution, limit: int = POINTS) -> Integers:
    """Return indices (P,) of the values to draw: all of them, or as many as can be told apart, about `limit`.

    Where thinned, they are spaced evenly in share for the body, and evenly in the logarithm of the remaining share for
    the tail, so that of the slowest hundred answers each is kept.
    """
    size = len(distribution.values_us)
    if size <= limit:
        return np.arange(size)
    even = np.linspace(0, distribution.total, limit)
    tail = distribution.total - np.geomspace(1, distribution.total, limit)
    ranks = np.union1d(even, tail)
    return np.union1d(np.searchsorted(distribution.pooled, ranks).clip(0, size - 1), [0, size - 1])


def _draw_curve(body: Axes, tail: Axes, curve: Curve, i: int, *, banded: bool) -> None:
    distribution = curve.distribution
    keep = points(distribution)
    x = distribution.values_us[keep] / 1000
    within = distribution.pooled[keep] / curve.offered
    style = {**_style(i), "markevery": (0.03 + 0.11 * (i % TOGETHER) / TOGETHER, 0.25)}
    name = f"{curve.label} ({_samples(curve)})"
    body.plot(np.insert(x, 0, x[0]), np.insert(within, 0, 0), drawstyle="steps-post", label=name, **style)
    _draw_tail(tail, curve, i)
    if banded and has_band(distribution):
        at, low, high = band(distribution, curve.seed)
        colour = style["color"]
        body.fill_between(at / 1000, low, high, step="post", color=colour, alpha=0.16, linewidth=0)
        tail.fill_between(at / 1000, 1 - high, 1 - low, step="post", color=colour, alpha=0.16, linewidth=0)


def _draw_tail(axes: Axes, curve: Curve, i: int) -> None:
    """Draw the share of cycles at or beyond each latency; the last point is the slowest answer, above what was lost."""
    distribution = curve.distribution
    keep = points(distribution)
    x = distribution.values_us[keep] / 1000
    before = (distribution.pooled - distribution.counts.sum(axis=0))[keep]
    beyond = 1 - before / curve.offered
    style = _style(i)
    axes.plot(x, beyond, drawstyle="steps-pre", **(style | {"marker": ""}))
    axes.plot(x[-1:], beyond[-1:], **(style | {"markersize": 4}))


def _style(i: int) -> dict[str, Any]:
    """Return colour, dashes and marker of the i-th line; any one of them distinguishes it from its neighbours."""
    return {
        "color": COLOURS[i % len(COLOURS)],
        "linestyle": LINES[i % len(LINES)],
        "marker": MARKERS[i % len(MARKERS)],
        "markersize": 3,
        "markeredgewidth": 0,
    }


def _lost(curve: Curve) -> str:
    return f" ({percentage(curve.lost, curve.offered)} lost)" if curve.lost else ""


def _samples(curve: Curve) -> str:
    lost = f", {curve.lost:,} lost" if curve.lost else ""
    return f"n = {curve.offered:,}{lost}"


def has_band(distribution: Distribution) -> bool:
    """Return whether there are enough repetitions for a band."""
    return len(distribution.repetitions) >= bootstrap.MINIMUM_REPETITIONS


def band(distribution: Distribution, seed: tuple[int, ...]) -> tuple[Integers, Floats, Floats]:
    """Return, (P,) each, latencies in µs, and 95 % bounds across repetitions of the share at or below each."""
    keep = points(distribution)
    even = np.linspace(0, len(keep) - 1, BAND_POINTS).astype(int)
    keep = np.union1d(keep[even], keep[-BAND_POINTS:])
    repetitions = len(distribution.repetitions)
    weights = bootstrap.resample(repetitions, seed)
    totals = (weights * (distribution.answered + distribution.lost)).sum(axis=1)
    # Whole numbers below 2**53 add up exactly in float64, in whatever order the library adds them.
    shares = weights.astype(np.float64) @ distribution.cumulative[:, keep].astype(np.float64) / totals[:, None]
    share = distribution.pooled[keep] / distribution.offered
    low, high = bootstrap.interval(share, shares, repetitions)
    return distribution.values_us[keep], low.clip(0, 1), high.clip(0, 1)


def _dress_body(axes: Axes, plot: Plot) -> None:
    start = min(int(curve.distribution.values_us[0]) for curve in plot.curves) / 1000
    end = max(_quantile(curve.distribution, BODY) for curve in plot.curves) / 1000
    margin = max((end - start) * 0.04, 0.001)
    axes.set_xlim(start - margin, end + margin)
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, symbol=" %"))
    axes.set_ylabel("cycles answered within")
    axes.grid(visible=True)


def _dress_tail(axes: Axes, curves: Sequence[Curve]) -> None:
    axes.set_yscale("log")
    axes.set_xscale("log")
    axes.set_ylim(0.8 / max(curve.offered for curve in curves), 1.2)
    axes.yaxis.set_major_locator(LogLocator(numticks=12))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share * 100:.7g} %"))
    axes.yaxis.set_minor_locator(NullLocator())
    lowest = min(int(curve.distribution.values_us[0]) for curve in curves)
    highest = max(int(curve.distribution.values_us[-1]) for curve in curves)
    axes.set_xlim(max(lowest, 1) / 1050, highest / 950)
    _log_milliseconds(axes)
    axes.grid(visible=True)


def _log_milliseconds(axes: Axes) -> None:
    """Label the axis with plain numbers at 1, 2, 5 × 10ⁿ, fewer where it spans much, more where it spans little."""
    low, high = axes.get_xlim()
    subs = (1, 2, 5) if high / low < 300 else (1,)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_locator(LogLocator(subs=subs) if high / low > 8 else MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _sheet(plot: Plot, lines: int, grid: tuple[int, int], inches: float, note: str = "") -> tuple[Figure, list[Axes]]:
    """Return a figure as high as its contents, and its axes: title, notices, legend, axes (`inches`), conditions."""
    footer = [part for line in (*plot.footer, note) if line for part in textwrap.wrap(line, FOOTER)]
    legend = math.ceil(lines / _columns(plot)) if lines > 1 else 1
    above = 0.44 + 0.22 * len(plot.notices) + 0.17 * legend + (0.15 if grid[0] > 1 else 0)
    below = 0.55 + 0.125 * len(footer)
    width, height = 7.2, above + inches + below
    figure = Figure(figsize=(width, height))
    axes = list(np.atleast_1d(figure.subplots(*grid)).ravel())
    title = f"{plot.title}: {plot.metric.title}"
    figure.text(0.1 / width, 1 - 0.1 / height, title, fontsize=9, va="top")
    for i, notice in enumerate(plot.notices):
        at = 1 - (0.36 + 0.22 * i) / height
        figure.text(0.13 / width, at, notice, fontsize=7, va="top", bbox=NOTICE)
    figure.text(
        0.1 / width, 0.08 / height, "\n".join(footer), fontsize=6.5, color="#505050", va="bottom", linespacing=1.35
    )
    figure.subplots_adjust(
        left=0.72 / width, bottom=below / height, right=1 - 0.1 / width, top=1 - above / height,
        wspace=0.3 if grid[0] == 1 else 0.22, hspace=0.32,
    )  # fmt: skip
    return figure, axes


def _columns(plot: Plot) -> int:
    """Return the number of columns of the legend."""
    return max(1, min(4, LEGEND // max(len(f"{curve.label} ({_samples(curve)})") for curve in plot.curves)))


def _legend(figure: Figure, plot: Plot, handles: Sequence[Any], names: Sequence[str]) -> None:
    height = figure.get_size_inches()[1]
    columns = _columns(plot) if len(plot.curves) <= TOGETHER else 2
    down = 1 - (0.28 + 0.22 * len(plot.notices)) / height
    figure.legend(
        handles, names, loc="upper left", bbox_to_anchor=(0.0, down), ncols=columns, fontsize=7.5,
        handlelength=2.6, columnspacing=1.4, borderpad=0.3, labelspacing=0.35,
    )  # fmt: skip


def _quantile(distribution: Distribution, q: float) -> float:
    return distribution.of_answered().pooled_quantile(q)


def _groups(summaries: Sequence[CellSummary]) -> Iterator[tuple[str, str, list[CellSummary]]]:
    """Yield (file name, title, members): cells that belong into one figure."""
    for scenario in dict.fromkeys(summary.cell.scenario for summary in summaries):
        of_scenario = [summary for summary in summaries if summary.cell.scenario == scenario]
        if not any(summary.cell.arm for summary in of_scenario):
            yield f"cdf-scenario-{scenario}", f"Scenario {scenario}", of_scenario
            continue
        for values in dict.fromkeys(summary.cell.values for summary in of_scenario):
            members = [summary for summary in of_scenario if summary.cell.values == values]
            cell = members[0].cell
            yield _file(f"scenario-{scenario}", cell), ", ".join([f"Scenario {scenario}", *cell.titles]), members


def _origin(bundle: Bundle, member: CellSummary, members: Sequence[tuple[Bundle, CellSummary]]) -> str:
    """Return the scenario and its conditions, with its folder where another bundle has the same."""
    cell = member.cell
    words = [f"scenario {cell.scenario}", labels.of_arm(cell)]
    twins = [m for _, m in members if (m.cell.scenario, labels.of_arm(m.cell)) == (cell.scenario, words[1])]
    return ", ".join([*words, bundle.folder.resolve().name] if len(twins) > 1 else words)


def _notices(bundle: Bundle, *, alone: bool) -> list[str]:
    return [line if alone else f"{bundle.name}: {line}" for line in conditions.notices(bundle)]


def _footer(bundles: Sequence[Bundle], members: Sequence[CellSummary]) -> tuple[str, ...]:
    runs = dict.fromkeys(" · ".join(conditions.of_run(bundle)) for bundle in bundles)
    cells = " · ".join(conditions.of_cells([member.cell for member in members]))
    shaded = "shaded: 95 % interval across repetitions; " if len(members) <= BANDED else ""
    ends = f"the left axis ends at the slowest line's {BODY:.0%} quantile; " if len(members) <= TOGETHER else ""
    return cells, *runs, f"{shaded}{ends}a lost cycle is later than any answer"
