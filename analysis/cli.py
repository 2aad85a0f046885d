"""The command line: `python -m analysis --help`."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from analysis import derived, figures, integrity, statistics, tables, warnings
from analysis.bundle import Bundle, BundleError, read

app = typer.Typer(
    help="""Turns the bundles that runs leave behind into statistics, tables, figures and verdicts.

    Works offline from the samples alone; the same bundle gives the same bytes each time. BUNDLE is the folder of a
    run, `results/latest` being the last one. Exit codes: 0 done, 1 a check did not hold, 2 bad input.""",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

BundleArgument = Annotated[Path, typer.Argument(metavar="BUNDLE", help="The folder of a run.")]
LATEST = Path("results/latest")


@app.command()
def summarise(bundle: BundleArgument = LATEST) -> None:
    """Write summary.csv, table.md and figures/ into the bundle, and print the table."""
    run = _open(bundle)
    summaries = statistics.summarise(run)
    derived.write_summary(run, summaries)
    console = _console()
    for line in (f"{run.name}: {run.status}", *derived.conditions_of(run)):
        console.print(line, soft_wrap=True)
    tables.show(tables.latencies(summaries, intervals=False), console)
    tables.show(tables.counts(summaries), console)
    tables.show(tables.deadlines(summaries), console)
    for line in tables.faults(summaries):
        console.print(line, soft_wrap=True)
    for caution in warnings.of(run, summaries):
        console.print(f"warning: {caution.line}", style="yellow", soft_wrap=True)
    console.print(f"Figures (PNG, SVG, PDF): {bundle / derived.FIGURES}/", soft_wrap=True)


@app.command()
def overlay(
    bundles: Annotated[list[Path], typer.Argument(metavar="BUNDLE…", help="The folders of two or more runs.")],
    into: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the figures go.")] = Path("results/overlays"),
) -> None:
    """Lay the distributions of several runs over each other.

    Scenarios 0–6 are paired as in the thesis: {0, 1} and {2, 3} in T, R and O; {1, 2}, {1, 2, 4, 5} and {3, 6} in O.
    Other scenarios are all drawn into one figure. There is one figure for each interval and QoS.
    """
    runs = [_open(bundle) for bundle in bundles]
    plots = list(figures.overlays([(run, statistics.summarise(run)) for run in runs]))
    if not plots:
        raise BundleError(f"{', '.join(map(str, bundles))}: no interval and QoS in common; nothing to lay over")
    for plot in plots:
        figures.save(plot, into)
    _console().print(f"{len(plots)} figures (PNG, SVG, PDF): {into}/", soft_wrap=True)


def main() -> None:
    """Runs a command; a `BundleError` is one line on stderr and exit code 2."""
    try:
        app()
    except BundleError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def _open(folder: Path) -> Bundle:
    bundle = read(folder)
    integrity.check(bundle)
    return bundle


def _console() -> Console:
    """Fits a terminal; unfolded plain text in a pipe."""
    piped = not sys.stdout.isatty()
    return Console(width=200 if piped else None, markup=False, highlight=False)
