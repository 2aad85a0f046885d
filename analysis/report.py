# SPDX-License-Identifier: Apache-2.0
"""`report.html`: one file that opens from disk and fetches nothing, for whoever was not there.

Words, tables and the glance are plain HTML; only distributions and time series need the script that is part of it.
"""

import html
import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib import resources
from typing import Any

from analysis import (
    checksums,
    compare,
    conditions,
    figures,
    findings,
    glance,
    proved,
    tables,
    timeline,
    verdicts,
    warnings,
)
from analysis.bundle import Bundle
from analysis.distribution import Floats
from analysis.figures import Plot
from analysis.statistics import CellSummary
from analysis.tables import Grid

VERDICTS = {
    compare.SLOWER: ("slower", "▲"),
    compare.FASTER: ("faster", "▼"),
    compare.SAME: ("same", "="),
    compare.UNKNOWN: ("", "?"),
}
MENU = {
    "distributions": "distributions",
    "table": "table",
    "timelines": "over time",
    "warnings": "warnings",
    "conditions": "conditions",
    "proofs": "proofs",
    "reproduce": "do it again",
}
HINT = "Move over the plot to read it off; drag to zoom, double-click to reset; or focus it and use + − ← → 0."


def render(bundle: Bundle, summaries: Sequence[CellSummary]) -> str:
    """The page."""
    claims = compare.arms(bundle)
    cautions = warnings.of(bundle, summaries)
    timelines = timeline.of(bundle)
    plots = list(figures.of_bundle(bundle, summaries))
    parts = [
        _header(bundle, summaries, cautions),
        _found(bundle, summaries, claims),
        _distributions(plots),
        _section("table", "Latency", _latency_tables(summaries)),
        _section("arms", "Arms compared", _grid(tables.claims(claims)) + _quiet(_ARMS)) if claims else "",
        _timelines(timelines, timeline.quiet(bundle, timelines)),
        _section("warnings", "Warnings", _warnings(cautions)),
        _section(
            "conditions",
            "What ran, and on what",
            _conditions(bundle) + _proofs(bundle) + _repetitions(bundle, summaries),
        ),
        _section("reproduce", "Do it again", _reproduce(bundle)),
        _section("reading", "How to read this", _READING),
    ]
    return _page(bundle.name, "".join(parts), _data(plots, timelines))


def _page(title: str, body: str, data: dict[str, Any]) -> str:
    asset = resources.files("analysis.page")
    style, script = (asset.joinpath(f"report.{kind}").read_text(encoding="utf-8") for kind in ("css", "js"))
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n{body}"
        f'<script type="application/json" id="data">{text}</script>\n<script>\n{script}</script>\n</body>\n</html>\n'
    )


def _header(bundle: Bundle, summaries: Sequence[CellSummary], cautions: Sequence[warnings.Caution]) -> str:
    counted = sum(summary.repetitions for summary in summaries)
    offered = sum(summary.counts.offered for summary in summaries)
    sure = f"{offered:,} cycles in {counted} repetitions over {len(summaries)} cells"
    told = f'<a href="#warnings">{len(cautions)} warnings</a>' if cautions else "no warnings"
    notices = "".join(f'<p class="notice">{_text(line)}</p>' for line in conditions.notices(bundle))
    menu = "".join(f'<a href="#{target}">{name}</a>' for target, name in MENU.items())
    return (
        f"<header><h1>{_text(bundle.name)}</h1>"
        f'<p><span class="status {bundle.status}">{bundle.status}</span> · {sure} · {told}</p>'
        f'<p class="quiet">{_text(" · ".join(conditions.of_cells(bundle.cells)))}<br>'
        f"{_text(' · '.join(conditions.of_run(bundle)))}</p>{notices}<nav>{menu}</nav></header>\n"
    )


def _found(bundle: Bundle, summaries: Sequence[CellSummary], claims: Sequence[compare.Claim]) -> str:
    """Where arms were compared, the verdicts, with the cells beneath; otherwise the cells."""
    if not summaries:
        return _section("found", "What was found", "<p>Nothing: no repetition counts. The warnings say why.</p>")
    judged = "".join(_verdict(own) for own in verdicts.grouped(claims) if own[0].metric == "T")
    cells = [findings.of_cell(bundle, summary) for summary in summaries]
    told = "".join(f"<li><b>{_text(found.label)}.</b> {_text(found.text)}</li>" for found in cells)
    picture = glance.render([found.label for found in cells], summaries)
    lists = f'<ul class="found">{judged}</ul>{picture}<ul class="cells">{told}</ul>'
    alone = f'<ul class="found">{told}</ul>{picture}'
    few = " Verdicts need 4 repetitions of each arm." if judged and min(s.repetitions for s in summaries) < 4 else ""
    note = _quiet(f"In brackets: 95 % intervals across repetitions.{few}")
    return _section("found", "What was found", (lists if judged else alone) + note)


def _verdict(claims: Sequence[compare.Claim]) -> str:
    """A line about one pair of arms, coloured and marked by its most telling verdict."""
    telling = next(verdict for verdict in VERDICTS if any(claim.verdict == verdict for claim in claims))
    kind, mark = VERDICTS[telling]
    a, b = claims[0].cells
    named = f"{b.arm} against {a.arm}, T every {a.interval_ms} ms, QoS {a.qos}"
    return f'<li class="{kind}"><b>{mark} {_text(named)}:</b> {_text(verdicts.about("", claims))}.</li>'


def _distributions(plots: Sequence[Plot]) -> str:
    if not plots:
        return ""
    names = list(dict.fromkeys(plot.title for plot in plots))
    choice = _select("data-group", names, "Which cells") if len(names) > 1 else ""
    metrics = "".join(
        f'<button data-metric="{metric}" aria-pressed="false" title="{_text(words)}">{metric}</button>'
        for metric, words in figures.METRICS.items()
    )
    views = "".join(
        f'<button data-tail="{tail}" aria-pressed="false">{words}</button>'
        for tail, words in enumerate(("Body", "Tail, logarithmic"))
    )
    choices = f'<span class="choice">{metrics}</span><span class="choice">{views}</span>'
    controls = f'<div class="controls">{choice}{choices}{_ZOOM}</div>'
    plot = '<div class="legend"></div><div id="cdf"></div><p class="readout"></p>'
    note = _quiet("Shaded: 95 % interval across repetitions. The same as PNG, SVG and PDF: folder figures.")
    return _section("distributions", "Distributions", controls + plot + note, HINT)


def _timelines(timelines: Sequence[timeline.Series], never: Sequence[str]) -> str:
    if not timelines:
        return ""
    cells = _select("data-cell", [own["label"] for own in timelines], "Cell")
    repetitions = '<select data-repetition aria-label="Repetition"></select>'
    controls = f'<div class="controls">{cells}{repetitions}{_ZOOM}</div>'
    note = _quiet(f"Watched, and never above 0: {', '.join(never)}.") if never else ""
    key = _quiet(
        "Red ticks are lost cycles; the dashed red line is the deadline. Causes are sampled ten times a second."
    )
    plots = '<div class="legend"></div><div class="panels"></div><p class="readout"></p>'
    return _section("timelines", "Over time, causes beneath", controls + plots + key + note, HINT)


def _latency_tables(summaries: Sequence[CellSummary]) -> str:
    others = (tables.counts(summaries), tables.deadlines(summaries))
    faults = "".join(f"<br>{_text(line)}" for line in tables.faults(summaries))
    note = "In ms; small: 95 % interval across repetitions. <i>thesis</i>: as published, on another host." + faults
    below = "".join(map(_grid, others))
    return f'{_grid(tables.latencies(summaries, intervals=True))}<p class="quiet">{note}</p>{below}'


def _grid(grid: Grid) -> str:
    """A table, compact; an interval goes in small under its value."""
    grid = tables.compact(grid)

    def head(i: int) -> str:
        return f"<th{_ALIGN[i < grid.labels]}>{_text(grid.header[i])}</th>"

    def row(cells: Sequence[str]) -> str:
        kind = ' class="thesis"' if tables.THESIS in cells else ""
        return (
            f"<tr{kind}>"
            + "".join(f"<td{_ALIGN[i < grid.labels]}>{_small(cell)}</td>" for i, cell in enumerate(cells))
            + "</tr>"
        )

    caption = f"<caption>{_text(grid.title)}</caption>"
    header = "".join(head(i) for i in range(len(grid.header)))
    body = "\n".join(row(cells) for cells in grid.rows)
    table = f"<table>{caption}<thead><tr>{header}</tr></thead><tbody>\n{body}\n</tbody></table>"
    return f'<div class="wide" tabindex="0">{table}</div>'


_ALIGN = {True: ' class="text"', False: ""}


def _small(cell: str) -> str:
    value, bracket, interval = cell.partition(" [")
    return f"{_text(value)}<small>{_text(interval.rstrip(']'))}</small>" if bracket else _text(cell)


def _warnings(cautions: Sequence[warnings.Caution]) -> str:
    if not cautions:
        return "<p>None: every check of <code>analysis/warnings.py</code> passed.</p>"
    items = (
        f'<li>{_text(c.about)}: {_text(c.text)}. <span class="remedy">{_text(c.advice)}</span></li>' for c in cautions
    )
    return f'<ul class="warnings">{"".join(items)}</ul>'


def _conditions(bundle: Bundle) -> str:
    document, host = bundle.document, bundle.document["host"]
    engine = document["engine"] or {}
    floor = (
        f"{tables.milliseconds(bundle.floor_us)} ms, median of a TCP echo on the same stand" if bundle.floor_us else ""
    )
    rows = {
        "Command": shlex.join(str(word) for word in document["command"]),
        "Run": f"{document['started_utc']} to {document.get('ended_utc') or 'unknown'}, seed {bundle.plan['seed']}",
        "Host": ", ".join(f"{name} {_plain(value)}" for name, value in sorted(host.items()) if value is not None),
        "Engine": ", ".join(f"{name} {_plain(value)}" for name, value in sorted(engine.items())) or "none",
        "Images": "; ".join(_image(name, image) for name, image in sorted(document["images"].items())),
        "Revision": _revision(document["git"]),
        "Instrument's floor": f"{floor} ms, median of a TCP echo on the same stand" if floor else "not measured",
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
    """What was asked, what the kernel read, and how often they agreed."""
    grid = proved.table(bundle)
    return _grid(grid) if grid.rows else _quiet("No knob was set, so there is nothing to prove.")


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
    header = ("order", "cell", "repetition", "validity", "reasons", "T p50 ms", *_NOISE.values())
    more = _quiet(f"The first {ROWS} of {len(bundle.repetitions)}.") if len(bundle.repetitions) > ROWS else ""
    table = _grid(Grid("Repetitions", header, 5, rows))
    return f"<details><summary>Every repetition, in the order run</summary>{table}{more}</details>"


ROWS = 500
_NOISE = {"steal_percent": "steal %", "foreign_cpu_percent": "foreign CPU %", "lateness_p99_us": "lateness p99 µs"}


def _medians(summary: CellSummary) -> Iterable[tuple[int, str]]:
    if "T" not in summary.distributions:
        return ()
    own = summary.distributions["T"]
    medians = own.quantiles(own.each(), 0.5).tolist()
    return zip(own.repetitions.tolist(), map(tables.milliseconds, medians), strict=True)


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


_ZOOM = (
    '<span class="choice"><button data-zoom="0.6" aria-label="Zoom in">+</button>'
    '<button data-zoom="1.6" aria-label="Zoom out">−</button><button data-reset>Reset zoom</button></span>'
)

_ARMS = (
    "B against A, averages over repetitions in ms. All intervals hold together at 95 %: the chance of any false alarm "
    "in this table is 5 % at most. Cliff's δ: from −1 (every repetition of B is below A's) to 1 (above)."
)

_READING = """<dl>
<dt>T</dt><dd>from sending a request to its answer, on the control loop's clock</dd>
<dt>R</dt><dd>the board's share, on the Pi's clock; no two hosts' clocks are ever subtracted</dd>
<dt>O = T − R</dt><dd>everything between: network, broker, both clients</dd>
<dt>T_intended</dt><dd>like T, from the time the request was due: where it exceeds T, requests left late</dd>
<dt>p50, p99</dt><dd>50 %, 99 % of the answers were at most this late; shown only where the count supports it</dd>
<dt>[low, high]</dt><dd>95 % interval by resampling whole repetitions; none below three of them</dd>
<dt>jitter</dt><dd>mean difference of one cycle's latency from the next one's</dd>
<dt>deadline</dt><dd>missed by an answer that comes later than that after its request was due, or never</dd>
</dl><p class="quiet">Formulas, their sources and how often verdicts are wrong: docs/statistics.md.</p>"""


def _data(plots: Sequence[Plot], timelines: Sequence[timeline.Series]) -> dict[str, Any]:
    """What the script draws: latencies in µs, shares as counts."""
    groups: dict[str, dict[str, dict[str, Any]]] = {}
    for plot in plots:
        lines = groups.setdefault(plot.title, {})
        for curve in plot.curves:
            lines.setdefault(curve.label, {})[plot.metric] = _line(curve)
    services = sorted(
        {s["service"] for t in timelines for r in t["repetitions"] for c in r["causes"].values() for s in c}
    )
    shown = [
        {**t, "repetitions": [{k: v for k, v in r.items() if k != "watched"} for r in t["repetitions"]]}
        for t in timelines
    ]
    return {
        "groups": [{"lines": [{"label": k, "metrics": v} for k, v in lines.items()]} for lines in groups.values()],
        "quantities": [asdict(quantity) for quantity in timeline.QUANTITIES],
        "services": services,
        "timelines": shown,
    }


def _line(curve: figures.Curve) -> dict[str, Any]:
    """`x` in µs, `c` answers at or below, `b` answers below, of `n`; the band as shares."""
    own = curve.distribution
    keep = figures.points(own)
    line: dict[str, Any] = {
        "x": own.values_us[keep].tolist(),
        "c": own.pooled[keep].tolist(),
        "b": (own.pooled - own.counts.sum(axis=0))[keep].tolist(),
        "n": own.total,
        "lost": curve.lost,
        "band": None,
    }
    if figures.has_band(own):
        at, low, high = figures.band(own, curve.seed)
        line["band"] = {"x": at.tolist(), "low": _shares(low), "high": _shares(high)}
    return line


def _shares(values: Floats) -> list[float]:
    return [round(value, 5) for value in values.tolist()]


def _section(name: str, title: str, body: str, hint: str = "") -> str:
    data = f' data-hint="{_text(hint)}"' if hint else ""
    return f'<section id="{name}"{data}><h2>{title}</h2>\n{body}</section>\n'


def _select(name: str, options: Sequence[str], label: str) -> str:
    items = "".join(f'<option value="{i}">{_text(option)}</option>' for i, option in enumerate(options))
    return f'<select {name} aria-label="{label}">{items}</select>'


def _quiet(text: str) -> str:
    return f'<p class="quiet">{_text(text)}</p>'


def _text(text: str) -> str:
    return html.escape(text)
