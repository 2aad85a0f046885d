# SPDX-License-Identifier: Apache-2.0
"""What the report's first screen shows, for papers: the forest plot of differences, and every repetition in order."""

import math
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.markers import CARETLEFTBASE, CARETRIGHTBASE
from matplotlib.ticker import FuncFormatter, MaxNLocator

from analysis.judging.answer import Answer
from analysis.reading.bundle import Bundle
from analysis.showing import conditions, forest, repetitions
from analysis.showing.figures import FOOTER, FORMATS, STYLE
from analysis.showing.forest import MARKS, Panel
from analysis.showing.repetitions import STATES, InOrder
from analysis.statistics.per_cell import CellSummary

WIDTH = 7.2
FIRST = 3
"""Panels of the forest plot beside the headlines'."""
COLOURS = {"better": "#00714f", "worse": "#b3261e", "same": "#333333", "unknown": "#333333"}
DOTS: dict[str, dict[str, Any]] = {
    "valid": {"marker": "o", "color": "#0072B2", "markersize": 3.5},
    "noisy": {"marker": "o", "color": "#0072B2", "markersize": 3.5, "markerfacecolor": "white"},
    "aside": {"marker": "x", "color": "#b3261e", "markersize": 4},
    "lost": {"marker": "^", "color": "#b3261e", "markersize": 4.5},
}


def save(bundle: Bundle, summaries: Sequence[CellSummary], answer: Answer, folder: Path) -> None:
    """Draw `forest` where arms were compared, and `repetitions` where any ran, in every format into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):
        for name, figure in _figures(bundle, summaries, answer):
            for suffix, metadata in FORMATS.items():
                figure.savefig(folder / f"{name}.{suffix}", dpi=200, metadata=metadata)


def _figures(bundle: Bundle, summaries: Sequence[CellSummary], answer: Answer) -> Iterator[tuple[str, Figure]]:
    lines = [" · ".join(conditions.of_cells(bundle.cells)), " · ".join(conditions.of_run(bundle))]
    footer = [part for line in (*lines, *conditions.notices(bundle)) for part in textwrap.wrap(line, FOOTER)]
    panels = forest.panels(answer)
    first = [panel for panel in panels if panel.headline] + [panel for panel in panels if not panel.headline][:FIRST]
    if first:
        yield "forest", forest_plot(first, answer, footer)
    ordered = repetitions.in_order(bundle, summaries, answer.question.headlines[0])
    if ordered.rows:
        yield "repetitions", order_plot(ordered, footer)


def forest_plot(panels: Sequence[Panel], answer: Answer, footer: Sequence[str]) -> Figure:
    """Draw panels above each other: an arm a row, its difference and interval, the zero line, the margin as a band."""
    sentence = textwrap.wrap(answer.sentence, 104)
    rows = [len(panel.rows) for panel in panels]
    heights = [0.2 * count + 0.15 for count in rows]
    above, below, between = 0.45 + 0.16 * len(sentence), 0.6 + 0.125 * len(footer), 0.62
    height = above + sum(heights) + between * (len(panels) - 1) + below
    figure = Figure(figsize=(WIDTH, height))
    figure.text(0.1 / WIDTH, 1 - 0.1 / height, "\n".join(sentence), fontsize=8.5, va="top", linespacing=1.3)
    top = height - above
    for panel, inches in zip(panels, heights, strict=True):
        axes = figure.add_axes((2.05 / WIDTH, (top - inches) / height, 2.35 / WIDTH, inches / height))
        _forest(axes, panel)
        top -= inches + between
    _foot(figure, (*footer, "intervals: 95 %, those of one family together; band: differences too small to matter"))
    return figure


def _forest(axes: Axes, panel: Panel) -> None:
    low, high = panel.reach
    axes.set_xlim(low, high)
    axes.set_ylim(len(panel.rows) - 0.4, -0.6)
    axes.axvspan(-panel.margin, panel.margin, color="#000000", alpha=0.1, linewidth=0)
    axes.axvline(0, color="black", linewidth=0.7)
    for y, row in enumerate(panel.rows):
        colour = COLOURS[row.kind]
        if row.value is not None:
            ends = np.clip([row.low, row.high], low, high)
            axes.plot(ends, [y, y], color=colour, linewidth=1.2)
            for end, bound, beyond in zip(ends, (row.low, row.high), (CARETLEFTBASE, CARETRIGHTBASE), strict=True):
                marker = "|" if low <= bound <= high else beyond
                axes.plot([end], [y], color=colour, marker=marker, markersize=5, clip_on=False)
            face = "white" if row.kind == "unknown" else colour
            axes.plot(
                [np.clip(row.value, low, high)], [y], marker="o", color=colour, markerfacecolor=face, markersize=4
            )
        words = f"{row.amount}  {MARKS[row.kind]} {row.verdict}"
        axes.annotate(
            words, (1, y), xycoords=("axes fraction", "data"), xytext=(6, 0), textcoords="offset points",
            va="center", fontsize=7, color=colour, annotation_clip=False,
        )  # fmt: skip
    axes.set_yticks(range(len(panel.rows)), [row.label for row in panel.rows], fontsize=7)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+g}".replace("-", "−") if value else "0"))
    axes.set_xlabel(f"difference in {panel.unit}; less is better", fontsize=7)
    axes.set_title(panel.title, fontsize=8, loc="left", x=-0.82, pad=3)


def order_plot(ordered: InOrder, footer: Sequence[str]) -> Figure:
    """Draw a strip a cell: the value upwards, the order of running to the right; the line is the median."""
    above, below, strip = 0.55, 0.75 + 0.125 * len(footer), 0.42
    height = above + strip * len(ordered.rows) + below
    figure = Figure(figsize=(WIDTH, height))
    title = f"Every repetition in the order run: {ordered.name}, in ms"
    figure.text(0.1 / WIDTH, 1 - 0.1 / height, title, fontsize=9, va="top")
    low, high = (bound / 1000 for bound in ordered.reach_us)
    log = low > 0 and high / low > 5
    for i, row in enumerate(ordered.rows):
        bottom = height - above - strip * (i + 1)
        axes = figure.add_axes((2.3 / WIDTH, bottom / height, 4.7 / WIDTH, 0.8 * strip / height))
        axes.set_yscale("log" if log else "linear")
        axes.set_ylim(
            (low / 1.3, high * 1.3) if log else (low - 0.2 * (high - low) - 1e-3, high + 0.2 * (high - low) + 1e-3)
        )
        axes.set_xlim(-1, ordered.last + 1)
        values = [dot.value_us / 1000 for dot in row.dots if dot.state != "aside" and math.isfinite(dot.value_us)]
        if values:
            axes.axhline(float(np.median(values)), color="#bbbbbb", linewidth=0.7)
        for dot in row.dots:
            lost = math.isinf(dot.value_us)
            y = axes.get_ylim()[1] if lost else dot.value_us / 1000
            axes.plot([dot.order], [y], linestyle="", clip_on=False, **DOTS["lost" if lost else dot.state])
        axes.set_yticks([low, high], [f"{low:.3g}", f"{high:.3g}"], fontsize=5.5)
        axes.set_yticks([], minor=True)
        axes.annotate(
            row.label, (0, 0.5), xycoords="axes fraction", xytext=(-24, 0), textcoords="offset points",
            ha="right", va="center", fontsize=7,
        )  # fmt: skip
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
    axes.set_xlabel("first to last repetition of the run", fontsize=7)
    keys = [mpl.lines.Line2D([], [], linestyle="", **DOTS[state]) for state in DOTS if state in ordered.states]
    names = [(STATES | {"lost": ordered.cut})[state] for state in DOTS if state in ordered.states]
    figure.legend(
        keys, names, loc="upper left", bbox_to_anchor=(0, 1 - 0.26 / height), ncols=4, fontsize=7, borderpad=0.3
    )
    left = [f"{ordered.left_out} more cells are not drawn"] if ordered.left_out else []
    _foot(figure, (*footer, *left, "line: the median of the counted repetitions"))
    return figure


def _foot(figure: Figure, lines: Sequence[str]) -> None:
    width, height = figure.get_size_inches()
    figure.text(
        0.1 / width, 0.08 / height, "\n".join(lines), fontsize=6.5, color="#505050", va="bottom", linespacing=1.35
    )
