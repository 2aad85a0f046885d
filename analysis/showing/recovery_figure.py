# SPDX-License-Identifier: Apache-2.0
"""Cycles around a fault: latency by the time since it, one panel a cell, lost cycles as ticks along the bottom."""

import io
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from analysis.reading.arrays import Floats
from analysis.reading.bundle import Bundle
from analysis.showing import conditions
from analysis.showing.figures import COLOURS, FORMATS, NOTICE, STYLE
from analysis.statistics import recovery
from analysis.statistics.cycles import MISSING
from analysis.statistics.recovery import Summary

NAME = "recovery"
ANSWERED, LATE, LOST = COLOURS[0], COLOURS[4], COLOURS[1]
COLUMNS = 3
PANEL_IN = (2.4, 1.75)
BEFORE = 0.25
"""The share of each panel's width that shows what it was like before."""


@dataclass(frozen=True)
class Panel:
    """One cell: its summary, and the cycles of all its repetitions as (seconds since the fault, latency in ms).

    `answered` and `late` are (N, 2), `lost_s` (N,).
    """

    summary: Summary
    answered: Floats
    late: Floats
    lost_s: Floats


def panels(bundle: Bundle, summaries: Sequence[Summary]) -> list[Panel]:
    """Return a panel for every cell in which something broke."""
    return [_panel(bundle, summary) for summary in summaries]


def _panel(bundle: Bundle, summary: Summary) -> Panel:
    by_status: dict[str, list[Floats]] = {"ok": [], "late": [], "lost": []}
    for _, fault, cycles in recovery.read(bundle, summary.cell):
        since_s = (cycles.at_ns - fault.injected_ns) / 1e9
        latency_ms = np.where(cycles.received_ns == MISSING, np.nan, (cycles.received_ns - cycles.at_ns) / 1e6)
        for status, parts in by_status.items():
            mask = cycles.status == status
            parts.append(np.stack([since_s[mask], latency_ms[mask]], axis=1))
    ok, late, lost = (np.concatenate(parts) for parts in by_status.values())
    return Panel(summary, ok, late, lost[:, 0])


def save(bundle: Bundle, summaries: Sequence[Summary], folder: Path) -> list[Path]:
    """Draw the figure in every format into `folder`; nothing where nothing broke."""
    if not summaries:
        return []
    paths = [folder / f"{NAME}.{suffix}" for suffix in FORMATS]
    with mpl.rc_context(STYLE):
        figure = draw(bundle, panels(bundle, summaries))
        for path, metadata in zip(paths, FORMATS.values(), strict=True):
            figure.savefig(path, dpi=200, metadata=metadata)
    return paths


def png(bundle: Bundle, summaries: Sequence[Summary]) -> bytes:
    """Return the figure as PNG, for a page."""
    picture = io.BytesIO()
    with mpl.rc_context(STYLE):
        draw(bundle, panels(bundle, summaries)).savefig(picture, format="png", dpi=150, metadata=FORMATS["png"])
    return picture.getvalue()


def draw(bundle: Bundle, panels: Sequence[Panel]) -> Figure:
    """Draw the panels on common axes, so that arms can be compared by eye."""
    columns = min(COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    notices = conditions.notices(bundle)
    top_in, bottom_in = 0.62 + 0.22 * len(notices), 0.95
    width, height = max(columns * PANEL_IN[0] + 0.7, 5.2), rows * PANEL_IN[1] + top_in + bottom_in
    figure = Figure(figsize=(width, height))
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    _share_axes(axes[0], panels)
    for panel, panel_axes in zip(panels, axes, strict=False):
        _draw_panel(panel_axes, panel)
    for empty in axes[len(panels) :]:
        empty.set_visible(False)
    for panel_axes in axes[max(0, len(panels) - columns) : len(panels)]:
        panel_axes.tick_params(labelbottom=True)
    _dress(figure, bundle, notices, (top_in, bottom_in))
    return figure


def _share_axes(axes: Axes, panels: Sequence[Panel]) -> None:
    """Set common limits and ticks: from a while before the fault to well beyond the slowest recovery."""
    times = [r.recovery_us or r.watched_us for panel in panels for r in panel.summary.recoveries]
    after_s = min(1.4 * max(times) / 1e6, min(r.watched_us for panel in panels for r in panel.summary.recoveries) / 1e6)
    axes.set_xlim(-BEFORE * after_s / (1 - BEFORE), after_s)
    axes.set_yscale("log")
    everything = np.concatenate([cycles[:, 1] for panel in panels for cycles in (panel.answered, panel.late)])
    low, high = (float(everything.min()), float(everything.max())) if len(everything) else (1.0, 10.0)
    axes.set_ylim(low / 3, high * 1.6)
    axes.yaxis.set_major_locator(LogLocator(numticks=6))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _draw_panel(axes: Axes, panel: Panel) -> None:
    summary = panel.summary
    lasted_s = statistics.median(_lasted_s(r) for r in summary.recoveries)
    axes.axvspan(0, lasted_s, color="#000000", alpha=0.07, linewidth=0)
    axes.axvline(0, color="#000000", linewidth=0.8)
    if math.isfinite(summary.median.value_us):
        axes.axvline(summary.median.value_us / 1e6, color=COLOURS[2], linewidth=1.0, linestyle=(0, (4, 1.5)))
    for cycles, colour in ((panel.answered, ANSWERED), (panel.late, LATE)):
        axes.plot(cycles[:, 0], cycles[:, 1], ".", markersize=1.6, color=colour, alpha=0.6, markeredgewidth=0)
    low, _ = axes.get_ylim()
    axes.vlines(panel.lost_s, low, low * 1.8, color=LOST, linewidth=0.5)
    axes.grid(visible=True, axis="y")
    axes.set_title(_title(summary), fontsize=7.5, loc="left", pad=3)


def _lasted_s(r: recovery.Recovery) -> float:
    return 0.0 if r.fault.ended_ns is None else (r.fault.ended_ns - r.fault.injected_ns) / 1e9


def _title(summary: Summary) -> str:
    """Return the arm, or the fault and what distinguishes the cell, and the headline."""
    cell = summary.cell
    words = [cell.arm, *cell.texts[1:]] if cell.arm else [summary.fault, *cell.texts]
    never = f"{summary.never} of {len(summary.recoveries)} never recover" if summary.never else ""
    usual = "" if math.isinf(summary.median.value_us) else f"recovers in {summary.median.value_us / 1000:.0f} ms"
    return f"{', '.join(words)}\n" + "; ".join(filter(None, (usual, never)))


def _dress(figure: Figure, bundle: Bundle, notices: Sequence[str], margins_in: tuple[float, float]) -> None:
    width, height = figure.get_size_inches()
    top_in, bottom_in = margins_in
    figure.text(0.1 / width, 1 - 0.1 / height, "Cycles around the fault", fontsize=9, weight="bold", va="top")
    for i, notice in enumerate(notices):
        figure.text(0.13 / width, 1 - (0.36 + 0.22 * i) / height, notice, fontsize=7, va="top", bbox=NOTICE)
    figure.supxlabel("seconds since the fault", fontsize=8, y=(bottom_in - 0.42) / height, va="top")
    figure.supylabel(f"{bundle.round_trip} in ms, logarithmic", fontsize=8, x=0.08 / width)
    footer = (
        "a point an answered cycle (orange: late), a tick a lost one; line: the fault; grey: until it was put back; "
        "green: median recovery\n" + " · ".join(conditions.of_run(bundle))
    )
    figure.text(0.1 / width, 0.08 / height, footer, fontsize=6, color="#505050", va="bottom", linespacing=1.35)
    figure.subplots_adjust(
        left=0.62 / width, right=1 - 0.1 / width, top=1 - top_in / height, bottom=bottom_in / height,
        hspace=0.45, wspace=0.08,
    )  # fmt: skip
