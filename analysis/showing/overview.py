# SPDX-License-Identifier: Apache-2.0
"""Several runs of one family on one page: the story that their differences tell, side by side, laid over each other."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from analysis.judging import comparability
from analysis.judging.grid import Grid, markdown
from analysis.reading import control, files, labels
from analysis.reading.bundle import Bundle, Cell
from analysis.reading.family import Family, Value
from analysis.showing import conditions, derived, figures, report, strips, tables
from analysis.showing.control import story
from analysis.showing.control.story import JudgedChapter
from analysis.showing.figures import Plot
from analysis.statistics.per_cell import CellSummary

PAGE = "overview.html"
POINTS = 60_000
"""Of all lines together: nine scenarios stay below a megabyte."""
Read = tuple[Bundle, tuple[CellSummary, ...]]


@dataclass(frozen=True)
class Written:
    """The file of the page, and its story."""

    file: Path
    story: tuple[str, ...]


def write(runs: Sequence[Read], into: Path) -> Written:
    """Write overview.html, overview.md and the overlaid distributions into the folder `into`.

    Raise `BundleError` where the runs are not of one family.
    """
    comparability.require_alike(*(bundle for bundle, _ in runs))
    into.mkdir(parents=True, exist_ok=True)
    summaries = [summary for _, run_summaries in runs for summary in run_summaries]
    chapters = story.chapters(runs)
    sentences = story.sentences(chapters)
    plots = list(figures.overlays(runs))
    for plot in plots:
        figures.save(plot, into)
    grids = (tables.latencies(summaries, intervals=True), tables.counts(summaries), tables.deadlines(summaries))
    lines = "".join(f"- {sentence}\n" for sentence in sentences)
    files.write_text(into / "overview.md", "\n".join([f"# Overview\n\n{lines}", *map(markdown, grids)]))
    files.write_text(into / PAGE, _page(runs, chapters, sentences, plots, into))
    return Written(into / PAGE, sentences)


def _page(
    runs: Sequence[Read], chapters: Sequence[JudgedChapter], sentences: Sequence[str], plots: Sequence[Plot], into: Path
) -> str:
    family = runs[0][0].family
    summaries = [summary for _, run_summaries in runs for summary in run_summaries]
    gist = f'<p class="sentence">{html.escape(sentences[0])}</p>' if sentences else ""
    paragraphs = (
        gist + f'<ul class="story">{"".join(f"<li>{html.escape(sentence)}</li>" for sentence in sentences[1:])}</ul>'
    )
    none = "<p>No two of these runs are a pair that the story is made of.</p>"
    body = [
        report.section("answer", "What they say together", f"{paragraphs}{story.CAUTION}" if sentences else none),
        report.section("differences", "The differences", "".join(map(strips.forest, story.panels(chapters))))
        if chapters
        else "",
        report.section("runs", "Side by side", _levels(runs, family.remainder) + _links(runs, into)),
        report.distributions(plots, family, family.remainder, laid_over(family)),
        report.folded("table", "Every figure", "".join(map(report.grid, _grids(summaries)))),
    ]
    notices = dict.fromkeys(line for bundle, _ in runs for line in conditions.notices(bundle))
    warned = "".join(f'<p class="notice">{html.escape(line)}</p>' for line in notices)
    offered = sum(summary.counts.offered for summary in summaries)
    lost = sum(summary.counts.lost for summary in summaries)
    header = (
        f'<header><p class="quiet">{len(runs)} runs · {offered:,} cycles, {lost:,} lost</p>'
        f"<h1>What sharing a host costs, and what helps</h1>{warned}</header>"
    )
    data = report.plotted(plots, family.round_trip, points=POINTS) if plots else None
    return report.page("Overview of the scenarios", f"{header}<main>{''.join(body)}</main>", data)


def _grids(summaries: Sequence[CellSummary]) -> tuple[Grid, ...]:
    return tables.latencies(summaries, intervals=True), tables.counts(summaries), tables.deadlines(summaries)


def _levels(runs: Sequence[Read], metric: str) -> str:
    """Return a figure for each place on the axes, the scenarios beneath each other."""
    by_place: dict[tuple[Value, ...], list[CellSummary]] = {}
    for summary in (summary for _, summaries in runs for summary in summaries):
        by_place.setdefault(summary.cell.values, []).append(summary)
    return "".join(map(partial(_place, metric=metric), by_place.values()))


def _place(summaries: Sequence[CellSummary], metric: str) -> str:
    title = html.escape(", ".join(summaries[0].cell.titles))
    return f"<h3>{title}</h3>{strips.levels([(_name(summary.cell), summary) for summary in summaries], metric)}"


def laid_over(family: Family) -> str:
    """Return what the figures show in which runs of a family are laid over each other."""
    return "The thesis' comparisons" if control.is_family(family) else "Distributions"


def _name(cell: Cell) -> str:
    board = ", ideal board" if cell.board == "none" else ""
    return f"{cell.scenario}: {labels.of_arm(cell)}{board}"


def _links(runs: Sequence[Read], into: Path) -> str:
    """Return links to each run's own report, if it lies in a folder beside."""
    items = []
    for bundle, _ in runs:
        place = (bundle.folder / derived.REPORT).resolve()
        try:
            link = f"../{place.relative_to(into.resolve().parent).as_posix()}"
        except ValueError:
            continue
        words = f"{bundle.name}: {bundle.status}"
        items.append(f'<li><a href="{html.escape(link)}">{html.escape(words)}</a></li>')
    return f"<p>The report of each run:</p><ul>{''.join(items)}</ul>" if items else ""
