# SPDX-License-Identifier: Apache-2.0
"""`python -m experiments …`: what make calls, and what to call without make."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import docker
import docker.errors
import typer
from rich.console import Console
from rich.table import Table

from experiments import bench, doctor, plan, variables
from experiments.errors import TestbedError
from experiments.placements import Stand
from experiments.placements import docker as docker_placement
from experiments.placements.host import HostStand
from experiments.runner import Runner
from experiments.scenarios import SCENARIOS

RESULTS = Path("results")

app = typer.Typer(
    help="Runs scenarios of the MQTT contention testbed and leaves a bundle of each under results/.",
    no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False,
)  # fmt: skip

Swaps = Annotated[list[str] | None, typer.Argument(metavar="NAME=VALUE …", help="Swaps for this run; see `variables`.")]


@app.command()
def run(scenario: Annotated[str, typer.Argument(help="Its number; see `scenarios`.")], swaps: Swaps = None) -> None:
    """Run a scenario: bring the stand up, measure, take it down, leave results/latest."""
    given = variables.given(swaps or [], os.environ)
    settings = variables.Settings.parse(given)
    stand, notice = _placement(settings)
    default_device = "model" if stand.name == "host" else None
    planned = plan.of_scenario(scenario, settings, secrets.token_hex(4), default_device)
    for cell in planned.cells:
        stand.check(cell.conditions)
    console = Console(stderr=False, highlight=False)
    if notice:
        console.print(f"testbed: {notice}", markup=False, soft_wrap=True)
    with _alone():
        command = ["make", f"scenario-{scenario}", *(f"{name}={value}" for name, value in given.items())]
        runner = Runner(planned, stand, RESULTS, command, notice)
        console.print(
            f"testbed: {planned.name} ({planned.title}), placement {stand.name}, {len(planned.cells)} cells × "
            f"{settings.repetitions} repetitions × {settings.messages} cycles, seed {settings.seed}",
            markup=False,
            soft_wrap=True,
        )
        code = runner.run(console)
        console.print(
            f"testbed: {runner.bundle.facts['status']} bundle in {runner.bundle.folder}", markup=False, soft_wrap=True
        )
    raise typer.Exit(code)


@app.command()
def scenarios() -> None:
    """List the scenarios."""
    table = Table("scenario", "what", "board", "contention", "priority", "intervals ms", "QoS", box=None)
    for number, scenario in SCENARIOS.items():
        priority = ", ".join(f"{service} {what}" for service, what in scenario.priority.items())
        intervals = " ".join(map(str, scenario.intervals_ms))
        qos = " ".join(map(str, scenario.qos))
        table.add_row(
            number, scenario.title, scenario.device, scenario.contention or "–", priority or "–", intervals, qos
        )
    Console().print(table)


@app.command("variables")
def list_variables() -> None:
    """List the variables that can be swapped per run."""
    table = Table("variable", "what", box=None)
    for name, variable in variables.VARIABLES.items():
        table.add_row(name, variable.help)
    Console().print(table)


@app.command("bench")
def run_bench(swaps: Swaps = None) -> None:
    """Print the instrument beside its floor: TCP echo, scenario 0, lateness, CPU. Takes about three minutes."""
    stand, notice = _placement(variables.Settings.parse(variables.given(swaps or [], os.environ)))
    console = Console(highlight=False)
    if notice:
        console.print(f"testbed: {notice}", markup=False, soft_wrap=True)
    with _alone():
        bench.bench(stand, console)


@app.command("doctor")
def examine_host() -> None:
    """Say what this host can and cannot do, with the remedy for each miss."""
    raise typer.Exit(doctor.print_report(Console(highlight=False)))


@app.command()
def clean() -> None:
    """Remove what a killed run left behind: containers, networks, volumes. Bundles stay."""
    if docker_placement.engine_answers() is not None:
        print("testbed: no engine answers, so no container of ours runs; processes end with their runner")
        return
    engine = docker.from_env()
    projects = docker_placement.leftover_projects(engine)
    for project in sorted(projects):
        docker_placement.remove(engine, project)
        print(f"testbed: removed {project}")
    if not projects:
        print("testbed: nothing was left behind")


def _placement(settings: variables.Settings) -> tuple[Stand, str | None]:
    """Give the stand, and what every reader must be told when it is not the one they would expect."""
    if settings.placement == "docker":
        return docker_placement.require(), None
    lacking = docker_placement.engine_answers() if settings.placement is None else "PLACEMENT=host"
    if lacking is None:
        return docker_placement.DockerStand(), None
    return HostStand(settings.broker), f"placement host (plain processes): {lacking}"


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Keep a second run off this host: each would be the other's contention, without a label."""
    path = Path(tempfile.gettempdir()) / "mqtt-contention-testbed.lock"
    with path.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TestbedError("another run is measuring on this host; wait for it or stop it") from None
        yield


def main() -> int:
    """Run the command line; an expected failure is one line on standard error."""
    try:
        app(standalone_mode=True)
    except TestbedError as error:
        print(f"testbed: {error}", file=sys.stderr)
        return error.exit_code
    return 0
