# SPDX-License-Identifier: Apache-2.0
"""The command line: `python -m analysis --help`."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from analysis.judging import (
    answer,
    assertions,
    checks,
    comparability,
    compare,
    gate,
    headline,
    look,
    power,
    reproduction,
    verdicts,
    warnings,
)
from analysis.judging.control import calibrate
from analysis.judging.grid import Grid, markdown, without
from analysis.reading import integrity
from analysis.reading.bundle import Bundle, BundleError, read
from analysis.reading.selection import select
from analysis.showing import derived, figures, forest, instrument, overview, proved, recovery_table, tables, verify
from analysis.showing.control import path
from analysis.showing.screen import say, show, terminal
from analysis.statistics import per_cell, recovery
from schema.text import complain

app = typer.Typer(
    help="""Turns the bundles that runs leave behind into statistics, tables, figures and verdicts.

    Works offline from the samples alone; the same bundle gives the same bytes each time. BUNDLE is the folder of a
    run, `results/latest` being the last one. Exit codes: 0 done, 1 a check did not hold, 2 bad input.""",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

BundleArgument = Annotated[Path, typer.Argument(metavar="BUNDLE", help="The folder of a run.")]
SelectionArgument = Annotated[str, typer.Argument(help="A bundle, BUNDLE#ARM, or BUNDLE#name=value,…")]
LATEST = Path("results/latest")


@app.command()
def summarise(bundle: BundleArgument = LATEST) -> None:
    """Write summary.csv, table.md, figures/ and report.html into the bundle, and print the table.

    A run with ASSERT ends with its verdict, also in assert.json, .md and .xml: 0: as asserted, 1: not, 3: cannot tell.
    """
    run = _open(bundle)
    summaries = per_cell.summarise(run)
    written = derived.write(run, summaries, run.folder)
    run_answer = written.answer
    console = terminal()
    say(console, [run_answer.question.text, run_answer.sentence], "bold")
    say(console, [f"{run.name}: {run.status}", *derived.conditions_of(run), *run_answer.notes])
    for panel in forest.panels(run_answer):
        if panel.headline:
            show(tables.differences(panel), console)
    for grid in (recovery_table.table(recovery.of(run)), *tables.of_cells(summaries)):
        show(without(grid, ROOM_FOR_NONE), console)
    say(console, [instrument.line(run), *tables.faults(summaries)])
    proofs = proved.table(run)
    show(proved.requested(proofs), console)
    say(
        console,
        [f"{len(proofs.rows) - len(proved.requested(proofs).rows)} more fields that nobody set read as untouched."],
    )
    say(console, (f"warning: {caution.line}" for caution in warnings.of(run, summaries)), "yellow")
    say(console, [written.left_out] if written.left_out else [])
    say(console, [f"Figures (PNG, SVG, PDF): {bundle / derived.FIGURES}/", f"Report: {bundle / derived.REPORT}"])
    if asserted := assertions.judge(run, summaries):
        say(console, [asserted.sentence, *asserted.lines], "bold")
        raise typer.Exit(asserted.code)


ROOM_FOR_NONE = ("min", "p99.9", "jitter")
"""Columns that table.md has and a terminal has not."""


@app.command(name="report")
def report_command(bundle: BundleArgument = LATEST) -> None:
    """Write report.html, one page that opens from disk and fetches nothing, and the files that summarise writes."""
    run = _open(bundle)
    derived.write(run, per_cell.summarise(run), run.folder)
    say(terminal(), [str(bundle / derived.REPORT)])


@app.command(name="verify")
def verify_command(bundle: BundleArgument = LATEST) -> None:
    """Check a bundle against itself, and derive every table and figure of it again, byte for byte.

    Checks the checksums, that counts and latencies add up, that every planned repetition is accounted for and every
    knob has its proof. One line a finding; exit code 0 where there is none, 1 where there are some.
    """
    report = verify.verify(bundle)
    console = terminal()
    say(console, (f"finding: {line}" for line in report.findings), "red")
    say(console, (f"holds: {line}" for line in report.held))
    say(console, [f"{bundle}: {'not verified' if report.findings else 'verified'}"], "bold")
    raise typer.Exit(1 if report.findings else 0)


@app.command()
def overlay(
    bundles: Annotated[list[Path], typer.Argument(metavar="BUNDLE…", help="The folders of two or more runs.")],
    into: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the figures go.")] = Path("results/overlays"),
) -> None:
    """Lay the distributions of several runs over each other.

    Scenarios 0–6 of the control loop are paired as in the thesis: {0, 1} and {2, 3} in all metrics; {1, 2},
    {1, 2, 4, 5} and {3, 6} in O. Others are all drawn into one figure. There is one for each interval and QoS.
    """
    runs = [_open(bundle) for bundle in bundles]
    comparability.require_alike(*runs)
    plots = list(figures.overlays([(run, per_cell.summarise(run)) for run in runs]))
    if not plots:
        places = " and ".join(axis.heading for axis in runs[0].axes) or "scenarios"
        raise BundleError(f"{', '.join(map(str, bundles))}: no {places} in common; nothing to lay over")
    for plot in plots:
        figures.save(plot, into)
    say(terminal(), [f"{len(plots)} figures (PNG, SVG, PDF): {into}/"])


@app.command(name="compare")
def compare_command(
    a: SelectionArgument,
    b: SelectionArgument,
    margin_percent: Annotated[
        float, typer.Option(metavar="P", min=0, help="A difference within P % of A's value does not matter.")
    ] = 100 * headline.MARGIN,
    force: Annotated[bool, typer.Option("--force", help="Compare across hosts, boards or placements too.")] = False,
) -> None:
    """Say of each statistic whether B is faster than A, slower, the same within the margin, or whether it cannot tell.

    Of lost cycles and missed deadlines B has fewer or more.

    A and B name a bundle, an arm of one (results/latest#fifo), or cells by their conditions
    (results/latest#scenario=2,interval_ms=20,qos=0,arm=fifo). Cells pair by interval and QoS.

    All intervals hold together at 95 %: the chance of any false alarm in the whole comparison is 5 % at most.
    docs/statistics.md tells how, and how often a true difference is found.
    """
    comparison = compare.compare(select(a, _open), select(b, _open), margin=margin_percent / 100, force=force)
    console = terminal()
    say(console, [answer.of_comparison(comparison).sentence], "bold")
    say(
        console,
        [
            "A: " + comparison.a.text,
            "B: " + comparison.b.text,
            *(f"differs: {line}" for line in comparison.differences),
        ],
    )
    show(tables.claims(comparison.claims), console)
    say(console, verdicts.sentences(comparison.claims))
    say(console, (f"note: {line}." for line in comparison.notes), "yellow")


@app.command(name="overview")
def overview_command(
    bundles: Annotated[list[Path], typer.Argument(metavar="BUNDLE…", help="The folders of the runs.")],
    into: Annotated[Path, typer.Option(metavar="FOLDER", help="Where page, table and figures go.")] = Path(
        "results/overview"
    ),
) -> None:
    """Put several runs on one page: what they say together, side by side, and laid over each other.

    Each bundle gets its own tables, figures and report as well.
    """
    runs = [_open(bundle) for bundle in bundles]
    comparability.require_alike(*runs)
    summarised = [(run, per_cell.summarise(run)) for run in runs]
    for run, run_summaries in summarised:
        derived.write(run, run_summaries, run.folder)
    page = overview.write(summarised, into)
    console = terminal()
    say(console, page.story, "bold")
    summaries = [summary for _, run_summaries in summarised for summary in run_summaries]
    for grid in tables.of_cells(summaries):
        show(without(grid, ROOM_FOR_NONE), console)
    say(console, (f"scenario {run.name.removeprefix('scenario-')}: {run.status}, {run.folder}" for run in runs))
    say(console, [f"Overview: {page.file}", f"{overview.laid_over(runs[0].family)} (PNG, SVG, PDF): {into}/"])


@app.command(name="path")
def path_command(bundle: BundleArgument = LATEST) -> None:
    """Show where the time between control loop and Pi went, in a run of `make path-N`."""
    split = path.read(_open(bundle))
    console = terminal()
    show(path.table(split), console)
    say(console, [split.seen])
    say(console, (f"warning: {caution}." for caution in path.cautions(split)), "yellow")


@app.command()
def reproduced(
    original: Annotated[Path, typer.Argument(help="The bundle that was replayed.")],
    replay: Annotated[Path, typer.Argument(help="The bundle of the replay.")] = LATEST,
) -> None:
    """Say of each claim of a bundle whether its replay reproduced it, contradicts it, or cannot tell."""
    was, now = _open(original), _open(replay)
    outcomes = reproduction.outcomes(was, now)
    console = terminal()
    say(console, filter(None, (reproduction.summary(outcomes), reproduction.caveat(was, now))))
    rows = tuple((outcome.claim, outcome.original, outcome.replay, outcome.verdict) for outcome in outcomes)
    show(Grid("Claim by claim", ("claim", "original", "replay", "verdict"), 4, rows), console)


@app.command(name="gate")
def gate_command(
    baseline: BundleArgument,
    candidate: BundleArgument = LATEST,
    margin_percent: Annotated[
        float | None,
        typer.Option(metavar="P", min=0, help="What does not matter, in % of the baseline; default: its own."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Judge across hosts, boards and placements too.")] = False,
) -> None:
    """Say whether a candidate is slower than its baseline: exit code 0: not slower, 1: slower, 3: cannot tell.

    Judged on the interval of the baseline's headlines, and on losses. Writes gate.json, gate.md and gate.xml (JUnit)
    into the candidate's folder.
    """
    outcome = gate.judge(_open(baseline), _open(candidate), margin_percent, force=force)
    checks.write(outcome, candidate, "gate")
    say(terminal(), [outcome.sentence, *outcome.lines])
    raise typer.Exit(outcome.code)


@app.command(name="look")
def look_command(
    bundle: BundleArgument = LATEST,
    baseline: Annotated[
        Path | None, typer.Option(metavar="BUNDLE", help="Ask of a gate whether it can tell against this one.")
    ] = None,
    margin_percent: Annotated[float | None, typer.Option(metavar="P", min=0, help="The gate's.")] = None,
    force: Annotated[bool, typer.Option("--force", help="The gate's.")] = False,
) -> None:
    """Say whether a run with PRECISION has its answer, as one line of JSON: what the runner asks between blocks."""
    run = read(bundle)
    seen = look.look(run) if baseline is None else gate.look(_open(baseline), run, margin_percent, force=force)
    print(json.dumps(seen, ensure_ascii=False))


@app.command(name="power")
def power_command(
    bundles: Annotated[
        list[Path], typer.Argument(metavar="BUNDLE…", help="The folders of runs on the host in question.")
    ],
    draws: Annotated[int, typer.Option(metavar="N", min=20, help="Comparisons for each line.")] = 200,
) -> None:
    """Say what a comparison of 10 and of 20 repetitions a side would find on the host where these bundles were made.

    Their own repetitions are drawn anew, and differences planted: shifts, a tail of 1 % of cycles, losses. Prints
    Markdown, as docs/statistics.md has it; takes about a minute a cell.
    """
    for run in map(_open, bundles):
        print(markdown(power.table(run, draws)))


@app.command(name="calibrate")
def calibrate_command(
    splits: Annotated[int, typer.Option(metavar="N", min=100, help="A/A comparisons for each line.")] = 1000,
) -> None:
    """Measure on simulated repetitions how often verdicts are false alarms, and which true shifts they find.

    Takes some minutes and prints the tables kept in docs/statistics.md, in Markdown.
    """
    for grid in calibrate.tables(splits):
        print(markdown(grid))


def main() -> None:
    """Run a command; a `BundleError` is one line on stderr and exit code 2, a full disk or the like exit code 1."""
    try:
        app()
    except BundleError as error:
        complain("error", error)
        sys.exit(2)
    except OSError as error:
        complain("error", f"{error.filename or 'the bundle'}: {error.strerror or error}")
        sys.exit(1)


def _open(folder: Path) -> Bundle:
    bundle = read(folder)
    integrity.check(bundle)
    return bundle
