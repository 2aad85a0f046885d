# SPDX-License-Identifier: Apache-2.0
"""`report.html`: one file that opens from disk and fetches nothing, for whoever was not there.

The first screen is the question, the answer and how sure it is; the evidence stands behind it, folded where it is long.
Words, tables and the figures of the first screen are plain HTML; only the zoomable plots need the script in the page.
"""

import base64
import hashlib
import html
import json
import math
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib import resources
from typing import Any

from analysis.judging import warnings
from analysis.judging.answer import Answer, Effect
from analysis.judging.grid import Grid, compact
from analysis.reading import checksums, control, labels
from analysis.reading.arrays import Floats
from analysis.reading.bundle import Bundle
from analysis.reading.family import Family
from analysis.showing import (
    conditions,
    figures,
    findings,
    forest,
    instrument,
    proved,
    recovery_figure,
    recovery_table,
    repetitions,
    strips,
    tables,
    timeline,
)
from analysis.showing.figures import Plot
from analysis.statistics import recovery
from analysis.statistics.per_cell import CellSummary
from analysis.statistics.quantity import plural

MENU = {
    "answer": "answer",
    "recovery": "after the fault",
    "distributions": "distributions",
    "table": "table",
    "timelines": "over time",
    "warnings": "warnings",
    "conditions": "conditions",
    "proofs": "proofs",
    "reproduce": "do it again",
    "reading": "how to read this",
}
HINT = "Move over a plot to read it off; drag to zoom, double-click to reset; or focus it and use ← → + − 0."
LONG = 12
"""A table of more rows starts folded."""
POINTS = 300_000
"""Points of distribution functions in one page, shared among its lines; more would only make it slow to open."""
FIRST = 3
"""Panels of the forest plot beside the headlines' that the first screen shows."""


def render(bundle: Bundle, summaries: Sequence[CellSummary], answer: Answer) -> str:
    """Return the page of a run as HTML."""
    cautions = warnings.of(bundle, summaries)
    timelines = timeline.of(bundle)
    plots = list(figures.of_bundle(bundle, summaries))
    body = [
        _answer(bundle, summaries, answer),
        _recovery(bundle),
        distributions(plots, bundle.family, figures.about(bundle.family, answer.question.headlines)),
        _table(bundle, summaries),
        _claims(answer),
        _timelines(timelines, bundle.round_trip, timeline.quiet(bundle, timelines)),
        _warnings(cautions),
        folded("conditions", "What ran, and on what", _conditions(bundle) + _repetitions(bundle, summaries)),
        folded("proofs", "Proofs: what was set, and what the kernel read", _proofs(bundle)),
        folded("reproduce", "Do it again", _reproduce(bundle)),
        folded("reading", "How to read this", _reading(bundle.family)),
    ]
    sections = "".join(body)
    menu = "".join(f'<a href="#{name}">{words}</a>' for name, words in MENU.items() if f'id="{name}"' in sections)
    header = _header(bundle, summaries, answer, cautions)
    data = plotted(plots, bundle.round_trip, timelines, bands=len(summaries) <= BANDS)
    return page(bundle.name, f'{header}<nav aria-label="On this page">{menu}</nav><main>{sections}</main>', data)


def page(title: str, body: str, data: dict[str, Any] | None = None) -> str:
    """Return a self-contained page that may fetch nothing and run no script but its own; `data` is for the plots."""
    style = _asset("vendor/uPlot.min.css") + _asset("report.css") if data else _asset("report.css")
    scripts = [_asset("vendor/uPlot.iife.min.js"), _asset("report.js")] if data else []
    hashes = " ".join(f"'sha256-{_hash(script)}'" for script in scripts) or "'none'"
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src {hashes}"
    inline = "".join(f"<script>{script}</script>\n" for script in scripts)
    block = f'<script type="application/json" id="data">{_json(data)}</script>\n' if data else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f'<a class="skip" href="#answer">To the answer</a>\n{body}{block}{inline}</body>\n</html>\n'
    )


def _asset(name: str) -> str:
    return resources.files("analysis.showing.page").joinpath(*name.split("/")).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _json(data: dict[str, Any] | None) -> str:
    """Return JSON for a script element: without `<`, so that neither `</script` nor `<!--` can end or hide anything."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def _header(
    bundle: Bundle, summaries: Sequence[CellSummary], answer: Answer, cautions: Sequence[warnings.Caution]
) -> str:
    counted = sum(summary.repetitions for summary in summaries)
    offered = sum(summary.counts.offered for summary in summaries)
    size = f"{offered:,} cycles in {plural(counted, 'repetition')} over {plural(len(summaries), 'cell')}"
    warned = f'<a href="#warnings">{plural(len(cautions), "warning")}</a>' if cautions else "no warnings"
    notices = "".join(f'<p class="notice">{_text(line)}</p>' for line in conditions.notices(bundle))
    return (
        f'<header><p class="quiet">{_text(bundle.name)} · <span class="status {bundle.status}">{bundle.status}</span>'
        f" · {size} · {warned}</p><h1>{_text(answer.question.text)}</h1>{notices}</header>\n"
    )


def _answer(bundle: Bundle, summaries: Sequence[CellSummary], answer: Answer) -> str:
    """Return the first section: the answer's sentence, how sure it is, and the figures for a quick reader."""
    if not summaries:
        return section("answer", "Answer", "<p>Nothing: no repetition counts. The warnings say why.</p>")
    panels = forest.panels(answer)
    shown = [panel for panel in panels if panel.headline] + [panel for panel in panels if not panel.headline][:FIRST]
    latencies = [quantity.metric for quantity in answer.question.headlines if quantity.is_latency]
    names = labels.of_cells(bundle.cells)
    named = [(names[summary.cell.index], summary) for summary in summaries]
    order = repetitions.in_order(bundle, summaries, answer.question.headlines[0])
    parts = [
        f'<p class="sentence">{_text(answer.sentence)}</p>',
        _sureness(answer),
        grid(recovery_table.table(recoveries)) if (recoveries := recovery.of(bundle)) else "",
        "".join(map(strips.forest, shown)),
        strips.levels(named, next(iter(latencies), bundle.round_trip)),
        strips.in_order(order),
        _quiet(instrument.line(bundle)),
    ]
    return section("answer", "Answer", "".join(parts))


def _recovery(bundle: Bundle) -> str:
    """Return the picture of what each fault cost, cycle by cycle; nothing where nothing broke."""
    recoveries = recovery.of(bundle)
    if not recoveries:
        return ""
    picture = base64.b64encode(recovery_figure.png(bundle, recoveries)).decode()
    words = _text(recovery.sentence(recoveries))
    image = f'<img class="wide" src="data:image/png;base64,{picture}" alt="Cycles around the fault. {words}">'
    note = _quiet(
        "Recovery ends with the answer of the first cycle that begins ten answered ones in a row; its resolution is "
        "the interval. A repetition that never recovered ranks behind all others. Per repetition: recovery.csv."
    )
    return section("recovery", "After the fault", f"<p>{words}</p>{image}{note}")


def _sureness(answer: Answer) -> str:
    """Return the negative control, losses of repetitions set aside, and notes."""
    aside = [cell for cell in answer.losses if cell.set_aside_lost]
    lines = [*_controls(answer), *(f"{cell.cell.label}: {cell.text}" for cell in aside), *map(_sentence, answer.notes)]
    if answer.effects:
        lines.append(_ALL_HOLD)
    return "".join(map(_quiet, lines))


def _controls(answer: Answer) -> Iterable[str]:
    """Yield a line for each verdict of the negative control: in full for one arm, together for several."""
    by_verdict: dict[str, list[Effect]] = {}
    for effect in answer.effects:
        if effect.control:
            by_verdict.setdefault(effect.control.verdict, []).append(effect)
    for verdict, effects in by_verdict.items():
        first = effects[0].control
        arms = f"{verdict} in {len(effects)} of {plural(len(answer.effects), 'arm')}"
        names = f": {'; '.join(effect.b for effect in effects)}" if len(effects) < len(answer.effects) else ""
        yield f"Negative control: {first.text if first and len(effects) == 1 else arms + names}."


def _sentence(note: str) -> str:
    return f"{note[0].upper()}{note[1:].rstrip('.')}."


_ALL_HOLD = (
    "In brackets: 95 % intervals; those of one family hold together, so that any false alarm among them is that rare. "
    "Grey band: differences too small to matter."
)


def distributions(plots: Sequence[Plot], family: Family, first: str, title: str = "Distributions") -> str:
    """Return the distributions for the script to draw, metric `first`, and as a table; the page needs `plotted`."""
    if not plots:
        return ""
    names = list(dict.fromkeys(plot.title for plot in plots))
    choice = _select("data-group", names, "Which cells") if len(names) > 1 else ""
    metrics = "".join(
        f'<button data-metric="{metric.name}" aria-pressed="false" title="{_text(metric.title)}">{metric.name}</button>'
        for metric in family.metrics
    )
    views = "".join(
        f'<button data-view="{view}" aria-pressed="false">{words}</button>'
        for view, words in (("nines", "how late, by nines"), ("cdf", "where most answers lie"))
    )
    choices = f'<span class="choice">{metrics}</span><span class="choice" data-views>{views}</span>'
    band = '<label data-bands><input type="checkbox" data-band> 95 % bands</label>'
    controls = f'<div class="controls">{choice}{choices}{band}<button data-reset>Reset zoom</button></div>'
    plot = '<div class="legend"></div><p class="readout" aria-live="off"></p><div class="panels"></div>'
    table = _details("The same as a table", grid(_quantiles(plots)))
    note = _quiet(
        "A line ends where losses end it: a lost cycle ranks behind every answer. "
        "The same as PNG, SVG and PDF: folder figures."
    )
    data = f' data-hint="{_text(HINT)}" data-first="{first}"'
    return section("distributions", title, controls + plot + note + table, data)


def _quantiles(plots: Sequence[Plot]) -> Grid:
    """Return the latency of each line at round shares of the cycles offered, in ms."""
    shares = (0.1, 0.5, 0.9, 0.99, 0.999, 0.9999)
    rows = tuple(
        (plot.title, curve.label, plot.metric.name, *(_at_share(curve, share) for share in shares))
        for plot in plots
        for curve in plot.curves
    )
    return Grid("Answered within, in ms", ("", "line", "metric", *(f"{100 * share:g} %" for share in shares)), 3, rows)


def _at_share(curve: figures.Curve, share: float) -> str:
    distribution, offered = curve.distribution, curve.distribution.total + curve.lost
    rank = max(math.ceil(share * offered) - 1, 0)
    if offered * (1 - share) < 1 - 1e-9:
        return ""
    if rank >= distribution.total:
        return "lost"
    return tables.milliseconds(float(distribution.values_us[distribution.pooled.searchsorted(rank + 1)]))


def _timelines(timelines: Sequence[timeline.Series], round_trip: str, never: Sequence[str]) -> str:
    if not timelines:
        return ""
    cells = _select("data-cell", [series["label"] for series in timelines], "Cell")
    repetition = '<select data-repetition aria-label="Repetition"></select>'
    controls = f'<div class="controls">{cells}{repetition}<button data-reset>Reset zoom</button></div>'
    note = _quiet(f"Watched, and never above 0: {', '.join(never)}.") if never else ""
    key = _quiet(
        "Red marks at the bottom are lost cycles; the dashed red line is the deadline. Causes are sampled ten times a "
        "second."
    )
    head = "".join(
        f'<th scope="col">{name}</th>' for name in ("from s", f"slowest {round_trip} in ms", "lost", "causes")
    )
    rows = f"<table><thead><tr>{head}</tr></thead><tbody></tbody></table>"
    table = f'<details class="table"><summary>The same as a table</summary><div class="wide">{rows}</div></details>'
    plots = '<div class="legend"></div><p class="readout" aria-live="off"></p><div class="panels"></div>'
    body = controls + plots + key + note + table
    return folded("timelines", "Over time, causes beneath", body, data=f' data-hint="{_text(HINT)}"')


def _table(bundle: Bundle, summaries: Sequence[CellSummary]) -> str:
    """Return every statistic of every cell, and beneath it how late the instrument itself was."""
    if not summaries:
        return ""
    latencies = tables.latencies(summaries, intervals=True)
    others = (tables.counts(summaries), tables.deadlines(summaries))
    faults = "".join(f"<br>{_text(line)}" for line in tables.faults(summaries))
    published = " <i>thesis</i>: as published, on another host." if control.is_family(bundle.family) else ""
    note = f"In ms; small: 95 % interval across repetitions.{published}{faults}"
    cells = "".join(
        f"<li><b>{_text(finding.label)}.</b> {_text(finding.text)}</li>"
        for finding in (findings.of_cell(bundle, summary) for summary in summaries)
    )
    words = _details("Each cell in a sentence", f'<ul class="cells">{cells}</ul>')
    line = _quiet(instrument.line(bundle))
    body = f'{grid(latencies)}{line}<p class="quiet">{note}</p>{"".join(map(grid, others))}{words}'
    return folded("table", "Latency, cycles and deadlines of every cell", body, opened=len(latencies.rows) <= LONG)


def _claims(answer: Answer) -> str:
    """Return the section with every difference that was tested; empty without any."""
    return (
        folded("arms", "Every difference that was tested", grid(tables.claims(answer.claims)) + _quiet(_ARMS))
        if (answer.claims)
        else ""
    )


def grid(given: Grid) -> str:
    """Return a table in HTML, compact, with intervals in small print under their values."""
    shown = compact(given)

    def head(i: int) -> str:
        return f'<th scope="col"{_ALIGN[i < shown.labels]}>{_text(shown.header[i])}</th>'

    def row(cells: Sequence[str]) -> str:
        kind = ' class="thesis"' if tables.THESIS in cells else ""
        return f"<tr{kind}>" + "".join(_cell(i, cell, shown.labels) for i, cell in enumerate(cells)) + "</tr>"

    caption = f"<caption>{_text(shown.title)}</caption>"
    header = "".join(head(i) for i in range(len(shown.header)))
    body = "\n".join(row(cells) for cells in shown.rows)
    table = f"<table>{caption}<thead><tr>{header}</tr></thead><tbody>\n{body}\n</tbody></table>"
    return f'<div class="wide" tabindex="0">{table}</div>'


def _cell(i: int, text: str, label_columns: int) -> str:
    if i == 0 and label_columns:
        return f'<th scope="row" class="text">{_small(text)}</th>'
    return f"<td{_ALIGN[i < label_columns]}>{_small(text)}</td>"


_ALIGN = {True: ' class="text"', False: ""}


def _small(cell: str) -> str:
    value, bracket, interval = cell.partition(" [")
    return f"{_text(value)}<small>{_text(interval.rstrip(']'))}</small>" if bracket else _text(cell)


def _warnings(cautions: Sequence[warnings.Caution]) -> str:
    if not cautions:
        return section(
            "warnings", "No warnings", "<p>Every check of <code>analysis/judging/warnings.py</code> passed.</p>"
        )
    items = (
        f'<li>{_text(c.about)}: {_text(c.text)}. <span class="remedy">{_text(c.advice)}</span></li>' for c in cautions
    )
    body = f'<ul class="warnings">{"".join(items)}</ul>'
    return folded("warnings", plural(len(cautions), "warning"), body, opened=len(cautions) <= FIRST)


def _conditions(bundle: Bundle) -> str:
    document, host = bundle.document, bundle.document["host"]
    engine = document["engine"] or {}
    floor = f"{tables.milliseconds(bundle.floor_us)} ms" if bundle.floor_us else "not measured"
    rows = {
        "Cells": " · ".join(conditions.of_cells(bundle.cells)),
        "Size": " · ".join(conditions.of_run(bundle)),
        "Command": shlex.join(str(word) for word in document["command"]),
        "Run": f"{document['started_utc']} to {document.get('ended_utc') or 'unknown'}, seed {bundle.plan['seed']}",
        "Host": ", ".join(f"{name} {_plain(value)}" for name, value in sorted(host.items()) if value is not None),
        "Engine": ", ".join(f"{name} {_plain(value)}" for name, value in sorted(engine.items())) or "none",
        "Images": "; ".join(_image(name, image) for name, image in sorted(document["images"].items())),
        "Revision": _revision(document["git"]),
        "Instrument's floor": f"{floor} (median of a TCP echo on the same stand)" if bundle.floor_us else floor,
    }
    return (
        "<dl>" + "".join(f"<dt>{name}</dt><dd>{_text(value)}</dd>" for name, value in rows.items() if value) + "</dl>"
    )


def _image(name: str, image: dict[str, Any]) -> str:
    words = [image.get("reference"), str(image.get("id") or "")[:19], image.get("version"), image.get("origin")]
    return f"{name}: " + ", ".join(str(word) for word in words if word)


def _revision(git: dict[str, Any] | None) -> str:
    return f"{git.get('revision')}{' with local changes' if git.get('dirty') else ''}" if git else "not from a checkout"


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _proofs(bundle: Bundle) -> str:
    """Return what was requested, what the kernel read, and how often they agreed."""
    proofs = proved.table(bundle)
    return grid(proofs) if proofs.rows else _quiet("No knob was set, so there is nothing to prove.")


def _repetitions(bundle: Bundle, summaries: Sequence[CellSummary]) -> str:
    medians = {(s.cell.index, number): value for s in summaries for number, value in _medians(s)}
    rows = tuple(
        (
            str(r.order),
            next((cell.label for cell in bundle.cells if cell.index == r.cell), ""),
            str(r.repetition),
            r.validity + ("" if r.counted else ", not counted"),
            "; ".join(r.reasons),
            medians.get((r.cell, r.repetition), ""),
            *(f"{r.noise[name]:g}" if name in r.noise else "" for name in _NOISE),
        )
        for r in bundle.repetitions[:ROWS]
    )
    header = ("order", "cell", "repetition", "validity", "reasons", f"{bundle.round_trip} p50 ms", *_NOISE.values())
    more = _quiet(f"The first {ROWS} of {len(bundle.repetitions)}.") if len(bundle.repetitions) > ROWS else ""
    table = grid(Grid("Repetitions", header, 5, rows))
    return _details("Every repetition, in the order run", table + more)


ROWS = 500
_NOISE = {"steal_percent": "steal %", "foreign_cpu_percent": "foreign CPU %", "lateness_p99_us": "lateness p99 µs"}


def _medians(summary: CellSummary) -> Iterable[tuple[int, str]]:
    distribution = summary.distributions.get(summary.cell.family.round_trip)
    if distribution is None:
        return ()
    medians = distribution.quantiles(distribution.each(), 0.5).tolist()
    return zip(distribution.repetitions.tolist(), map(tables.milliseconds, medians), strict=True)


def _reproduce(bundle: Bundle) -> str:
    git, command = bundle.document["git"], shlex.join(str(word) for word in bundle.document["command"])
    lines = [f"git checkout {git.get('revision')}"] if git else []
    lines += [
        command,
        "",
        "# is this bundle what the run left behind, and does this page follow from it?",
        "make verify BUNDLE=<this folder>",
        "",
    ]
    lines += ["# the same plan, seed and order again, compared with this run", "make replay BUNDLE=<this folder>"]
    path = bundle.folder / "samples.parquet"
    seal = f"Everything here follows from samples.parquet, SHA-256 {checksums.checksum(path)}." if path.exists() else ""
    return f"<pre>{_text(chr(10).join(lines))}</pre>{_quiet(seal)}"


_ARMS = (
    "B against A, averages over repetitions in ms. All intervals hold together at 95 %: the chance of any false alarm "
    "in this table is 5 % at most. Cliff's δ: from −1 (every repetition of B is below A's) to 1 (above)."
)


def _reading(family: Family) -> str:
    """Return a glossary of the page, the metrics first."""
    first = family.round_trip
    words = {metric.formula: metric.words + (_OWN_CLOCKS if metric.difference else "") for metric in family.metrics}
    late = f"where it exceeds {first}, requests left late"
    words[family.intended] = f"like {first}, from the time the request was due: {late}"
    lines = (f"<dt>{_text(name)}</dt><dd>{_text(meaning)}</dd>\n" for name, meaning in words.items())
    return f"<dl>\n{''.join(lines)}{_READING}"


_OWN_CLOCKS = "; no two hosts' clocks are ever subtracted"
_READING = """\
<dt>p50, p99</dt><dd>50 %, 99 % of the cycles were answered within it; shown only where the count supports it</dd>
<dt>[low, high]</dt><dd>95 % interval by resampling whole repetitions; none below three of them</dd>
<dt>nines</dt><dd>an axis of 90 %, 99 %, 99.9 %, …: each step leaves a tenth of the cycles of the one before</dd>
<dt>jitter</dt><dd>mean difference of one cycle's latency from the next one's</dd>
<dt>deadline</dt><dd>missed by an answer that comes later than that after its request was due, or never</dd>
<dt>▼ ▲ = ?</dt><dd>faster (or fewer), slower (or more), the same within the margin, cannot tell</dd>
</dl><p class="quiet">Formulas, their sources and how often verdicts are wrong: docs/statistics.md.</p>"""


def plotted(
    plots: Sequence[Plot],
    round_trip: str,
    timelines: Sequence[timeline.Series] = (),
    *,
    bands: bool = False,
    points: int = POINTS,
) -> dict[str, Any]:
    """Return the script's data: latencies in µs, shares as counts, about `points` points in all."""
    limit = max(points // max(len(plots) and sum(len(plot.curves) for plot in plots), 1), 60)
    groups: dict[str, dict[str, dict[str, Any]]] = {}
    for plot in plots:
        lines = groups.setdefault(plot.title, {})
        for curve in plot.curves:
            lines.setdefault(curve.label, {})[plot.metric.name] = _line(curve, limit, band=bands)
    return {
        "groups": [{"lines": [{"label": k, "metrics": v} for k, v in lines.items()]} for lines in groups.values()],
        "round_trip": round_trip,
        "quantities": [asdict(quantity) for quantity in timeline.QUANTITIES],
        "services": timeline.services(timelines),
        "timelines": timelines,
    }


BANDS = 40
"""With more cells than this, the page has no bands: nobody could read them, and they would be most of its bytes."""


def _line(curve: figures.Curve, limit: int, *, band: bool) -> dict[str, Any]:
    """Return a line: `x` in µs, `c` answers at or below, of `n` answered and `lost`; the band as shares of both."""
    distribution = curve.distribution
    keep = figures.points(distribution, limit)
    line: dict[str, Any] = {
        "x": distribution.values_us[keep].tolist(),
        "c": distribution.pooled[keep].tolist(),
        "n": distribution.total,
        "lost": curve.lost,
        "band": None,
    }
    if band and figures.has_band(distribution):
        at, low, high = figures.band(distribution, curve.seed)
        line["band"] = {"x": at.tolist(), "low": _shares(low), "high": _shares(high)}
    return line


def _shares(values: Floats) -> list[float]:
    return [round(value, 5) for value in values.tolist()]


def section(name: str, title: str, body: str, data: str = "") -> str:
    """Return a section of a page under its title."""
    return f'<section id="{name}"{data}><h2>{title}</h2>\n{body}</section>\n'


def folded(name: str, title: str, body: str, *, opened: bool = False, data: str = "") -> str:
    """Return a section that unfolds at its title."""
    state = " open" if opened else ""
    summary = f"<summary><h2>{_text(title)}</h2></summary>"
    return f'<section id="{name}"{data}><details class="section"{state}>{summary}\n{body}</details></section>\n'


def _details(title: str, body: str) -> str:
    return f"<details><summary>{_text(title)}</summary>{body}</details>"


def _select(name: str, options: Sequence[str], label: str) -> str:
    items = "".join(f'<option value="{i}">{_text(option)}</option>' for i, option in enumerate(options))
    return f'<select {name} aria-label="{label}">{items}</select>'


def _quiet(text: str) -> str:
    return f'<p class="quiet">{_text(text)}</p>'


def _text(text: str) -> str:
    return html.escape(text)
