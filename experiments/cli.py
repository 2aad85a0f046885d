# SPDX-License-Identifier: Apache-2.0
"""`python -m experiments …`: what make calls, and what to call without make."""

from __future__ import annotations

import dataclasses
import os
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import docker.errors
import typer
from rich.console import Console
from rich.table import Table

from experiments import (
    bench,
    brokers,
    by_hand,
    credentials,
    differences,
    doctor,
    engine,
    families,
    gate,
    images,
    lock,
    plan,
    replay,
    variables,
)  # fmt: skip
from experiments.cells import Cell
from experiments.errors import BadInputError, StandError, TestbedError
from experiments.families import Family
from experiments.knobs.flags import NOTICE, Flags
from experiments.placements import Stand
from experiments.placements import docker as docker_placement
from experiments.runner import Runner
from schema.text import Terminal, complain, printable

RESULTS = Path("results")
DAY_S = 86_400
INTERRUPTED = 130

app = typer.Typer(
    help="Runs scenarios of the MQTT contention testbed and leaves a bundle of each under results/.",
    no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False,
)  # fmt: skip

Swaps = Annotated[list[str] | None, typer.Argument(metavar="NAME=VALUE …", help="Swaps for this run; see `variables`.")]


@app.command()
def run(scenario: Annotated[str, typer.Argument(help="Its number; see `scenarios`.")], swaps: Swaps = None) -> None:
    """Run a scenario: bring the stand up, measure, take it down, leave results/latest."""
    given = _given(swaps)
    settings = variables.Settings.parse(given)
    placement, notice = _placement(settings)
    planned = plan.of_scenario(scenario, settings, secrets.token_hex(4), placement)
    raise typer.Exit(_run(_possible(planned), given, notice)[0])


@app.command("path")
def run_path(
    scenario: Annotated[str, typer.Argument(help="Its number; see `scenarios`.")], swaps: Swaps = None
) -> None:
    """Split O along the path: run a scenario with a capture at the broker. Its latencies are not for comparison."""
    given = _given(swaps)
    settings = variables.Settings.parse(given)
    if settings.placement == "host":
        raise BadInputError(
            "PLACEMENT", "host", "a capture needs the broker's own network; leave it out, or say docker"
        )
    planned = plan.of_scenario(scenario, settings, secrets.token_hex(4))
    if not planned.family.tables:
        raise BadInputError("scenario", scenario, f"the family {planned.family.name} has nothing to split")
    planned = dataclasses.replace(planned, name=f"path-{scenario}", captured=True)
    raise typer.Exit(_run(planned, given, None)[0])


@app.command("all")
def run_all(swaps: Swaps = None) -> None:
    """Run the thesis' nine scenarios one after the other; results/scenarios lists their bundles."""
    given = _given(swaps)
    settings = variables.Settings.parse(given)
    placement, notice = _placement(settings)
    plans = [
        plan.of_scenario(name, family.in_series(name, settings), secrets.token_hex(4), placement)
        for family in families.REGISTRY.all().values()
        for name in family.series
    ]
    bundles, worst = [], 0
    with lock.alone():
        for planned in plans:
            code, folder = _run(_possible(planned), given, notice)
            if code == INTERRUPTED:
                raise typer.Exit(code)
            worst = max(worst, code)
            bundles.append(folder)
            (RESULTS / "scenarios").write_text("".join(f"{bundle}\n" for bundle in bundles))
    raise typer.Exit(worst)


@app.command()
def study(name: Annotated[str, typer.Argument(help="Its name; see `studies`.")], swaps: Swaps = None) -> None:
    """Run a study: its arms interleaved in one run, one bundle."""
    given = _given(swaps)
    placement, notice = _placement(variables.Settings.parse(given))
    planned = plan.of_study(name, given, secrets.token_hex(4), placement)
    raise typer.Exit(_run(_possible(planned), given, notice)[0])


@app.command("replay")
def run_again(
    bundle: Annotated[Path, typer.Argument(help="The folder of the run to repeat.")], swaps: Swaps = None
) -> None:
    """Run a bundle's plan again; what differs here, and what that may mean, is said first.

    The bundle is trusted with nothing that the command line could not say. A serial port is the user's to give:
    DEVICE=usb:/dev/ttyUSB0 stands in for one that the bundle names, and FAULT=clock:step:3600s allows a fault that acts
    on this machine itself; no other variable is taken.
    """
    named = replay.named(_given(swaps))
    recorded = replay.Recorded.read(bundle)
    planned = recorded.plan(secrets.token_hex(4), named)
    pinned: dict[str, str] = {}
    if any(cell.placement == "docker" for cell in planned.cells):
        docker_placement.require()
        pinned = replay.images_here(engine.connect(), recorded.image_ids(), images.repositories())
    console = Terminal(highlight=False)
    for line in differences.lines(recorded.facts, differences.here(recorded.facts, planned, pinned)):
        _say(console, f"testbed: {line}")
    command = [
        "make",
        "replay",
        f"BUNDLE={printable(str(bundle))}",
        *(f"{name}={value}" for name, value in named.items()),
    ]
    bare = any(cell.placement == "host" for cell in planned.cells)
    notice = "placement host (plain processes), as in the run replayed" if bare else None
    raise typer.Exit(_run(planned, {}, notice, command, pinned)[0])


@app.command("gate")
def run_gate(
    baseline: Annotated[Path, typer.Argument(help="The folder of the run to hold against.")], swaps: Swaps = None
) -> None:
    """Run a baseline's plan on the present stand, and say whether it got slower: for the CI of a broker or a client.

    BROKER, TCP and PRIORITY replace the baseline's, BROKER_IMAGE is built upon; a difference within MARGIN=5% does not
    matter. It runs as many repetitions as the baseline did, or REPETITIONS; with PRECISION=10% until it can tell.

    Ends 0: not slower, 1: slower, or it loses more, 3: cannot tell (`make gate` turns 1 and 3 into 2, as make does).
    The new bundle gets gate.json, gate.md and gate.xml (JUnit). A baseline of another machine is refused with 3 unless
    FORCE=yes.
    """
    given = _given(swaps)
    gated = gate.read(baseline, given)
    planned = gated.plan(secrets.token_hex(4))
    gated.require_machine()
    words = [f"{name}={value}" for name, value in given.items() if name != "BASELINE"]
    command = ["make", "gate", f"BASELINE={printable(str(baseline))}", *words]
    bare = any(cell.placement == "host" for cell in planned.cells)
    notice = "placement host (plain processes), as in the baseline" if bare else None
    code, folder = _run(planned, {}, notice, command)
    raise typer.Exit(code if code == INTERRUPTED else gated.judge(folder))


def _possible(planned: plan.Plan) -> plan.Plan:
    """Leave out what is not to be had here of a plan that `leaves_out`; raise BadInputError where nothing is left."""
    if not planned.leaves_out:
        return planned
    stands = {cell.placement: _stand(planned.family, cell.placement) for cell in planned.cells}
    return _with_those(planned, lambda cell: _check(stands[cell.placement], cell))


def _with_those(planned: plan.Plan, check: Callable[[Cell], None]) -> plan.Plan:
    """Leave out the cells that `check` refuses; raise its BadInputError where none is left, or all must be had."""
    impossible: dict[Cell, str] = {}
    for cell in planned.cells:
        try:
            check(cell)
        except BadInputError as error:
            impossible[cell] = str(error)
            if not planned.leaves_out or len(impossible) == len(planned.cells):
                raise
    return planned.without(impossible) if impossible else planned


def _check(stand: Stand, cell: Cell) -> None:
    """Raise BadInputError where a cell cannot be had on this stand. Starts nothing."""
    stand.check(cell.conditions)
    cell.check()


def _run(
    planned: plan.Plan,
    given: dict[str, str],
    notice: str | None,
    command: list[str] | None = None,
    pinned: dict[str, str] | None = None,
) -> tuple[int, Path]:
    """Run a plan as the only one on this host; returns the exit code and the bundle."""
    planned.require_enough()
    _require_images(planned)
    stands = {cell.placement: _stand(planned.family, cell.placement, pinned) for cell in planned.cells}
    _require_one_machine(set(stands))
    for cell in planned.cells:
        _check(stands[cell.placement], cell)
    _require_patience(planned)
    console = Terminal(highlight=False)
    settings = planned.settings
    command = command or ["make", planned.name, *(f"{name}={value}" for name, value in given.items())]
    with lock.alone():
        _require_nothing_left()
        planned = _with_those(planned, lambda cell: stands[cell.placement].obtain(cell.conditions))
        for line in _notices(planned, notice):
            _say(console, f"testbed: {line}")
        runner = Runner(planned, stands, RESULTS, command, notice)
        _say(
            console,
            f"testbed: {planned.name} ({planned.title}), placement {'+'.join(stands)}, {len(planned.cells)} cells × "
            f"{settings.repetitions} repetitions × {_each(cell.messages for cell in planned.cells)} cycles, "
            f"seed {settings.seed}",
        )
        code = runner.run(console)
        _say(console, f"testbed: {runner.bundle.facts['status']} bundle in {runner.bundle.folder}")
    return code, runner.bundle.folder


def _notices(planned: plan.Plan, notice: str | None) -> list[str]:
    """Return what the user must know before the first cycle."""
    requested = [knob for cell in planned.cells for _, knob in cell.conditions.each_knob()]
    left_out = [f"left out: arm {arm}: {reason}" for arm, reason in planned.left_out]
    return [
        *([notice] if notice else []),
        *left_out,
        *([NOTICE] if any(isinstance(knob, Flags) for knob in requested) else []),
    ]


def _require_patience(planned: plan.Plan) -> None:
    """Start nothing that takes longer than a day unless it was meant; raise BadInputError."""
    seconds = planned.settings.repetitions * sum(planned.scheduled_s(cell) for cell in planned.cells)
    if seconds > DAY_S and "1" not in (planned.settings.yes, os.environ.get("YES")):  # the latter for a replay
        takes = (
            f"{planned.settings.repetitions} repetitions of {len(planned.cells)} cells take {seconds / DAY_S:.1f} days"
        )
        raise BadInputError(
            "YES", "", f"{takes} by their schedule alone; say YES=1 if you mean it, or lower REPETITIONS"
        )


def _require_nothing_left() -> None:
    """Refuse to run beside what a killed run left: an old stressor is a contention without a label."""
    try:
        left = sorted(docker_placement.leftover_projects(engine.connect(timeout_s=10)))
    except (docker.errors.DockerException, OSError):
        return  # no engine, or none that we may use: then nothing of ours runs there either
    if left:
        raise StandError(
            f"{', '.join(left)}: left by a run that was killed, or started by hand; it would disturb this run; "
            "`make clean` removes it"
        )


@app.command("studies")
def list_studies() -> None:
    """List the studies."""
    table = Table("study", "question", "scenario", "arms", box=None)
    for family in families.REGISTRY.all().values():
        for name, data in family.studies.all().items():
            table.add_row(name, data.question, ", ".join(data.scenarios), ", ".join(data.arms))
    Console().print(table)


@app.command("brokers")
def list_brokers() -> None:
    """List the brokers: where each can run, what it delivers, what it can be asked for."""
    table = Table("broker", "in containers", "on this host", "QoS 0, 1, 2 are delivered at", "TCP", box=None)
    for kind in brokers.REGISTRY.all():
        broker = brokers.parse(kind)
        table.add_row(
            kind,
            "yes" if broker.contained else "no",
            "yes" if broker.available_on_host() else "no",
            ", ".join(map(str, broker.delivers)),
            ", ".join(broker.tcp),
        )
    Console().print(table)


@app.command()
def scenarios() -> None:
    """List the scenarios."""
    for family in families.REGISTRY.all().values():
        rows = [{"scenario": name} | family.describe(scenario) for name, scenario in family.scenarios.all().items()]
        table = Table(*rows[0], box=None)
        for row in rows:
            table.add_row(*row.values())
        Console().print(table)


@app.command("variables")
def list_variables() -> None:
    """List the variables that can be swapped per run."""
    table = Table("variable", "what", box=None)
    families.REGISTRY.all()  # each may add variables of its own
    for name, variable in variables.VARIABLES.items():
        table.add_row(name, variable.help)
    Console().print(table)


@app.command("bench")
def run_bench(swaps: Swaps = None) -> None:
    """Print the instrument beside its floor: TCP echo, scenario 0, lateness, CPU. Takes about three minutes.

    Its schedule is fixed, so that figures compare; only PLACEMENT and BROKER can be swapped.
    """
    given = _given(swaps)
    settings = variables.Settings.parse(given)
    for name in sorted(set(given) - {*bench.SWAPS, *variables.IMAGES}):
        raise BadInputError(name, given[name], f"bench has a fixed schedule; it takes only {' and '.join(bench.SWAPS)}")
    if settings.broker:
        brokers.parse(settings.broker)  # one at a time
    placement, notice = _placement(settings)
    console = Console(highlight=False)
    with lock.alone():
        _require_nothing_left()
        if notice:
            _say(console, f"testbed: {notice}")
        bench.bench(_stand(bench.FAMILY, placement), settings.broker, placement, console)


@app.command("doctor")
def examine_host() -> None:
    """Say what this host can and cannot do, with the remedy for each miss."""
    raise typer.Exit(doctor.print_report(Console(highlight=False)))


@app.command()
def firmware() -> None:
    """Export sketch and simulated board from their image, for DEVICE=simavr in placement host."""
    docker_placement.require()
    print(f"testbed: sketch and simulator are in {images.export_firmware(engine.connect())}")


@app.command("export-brokers")
def export_brokers(
    kinds: Annotated[list[str] | None, typer.Argument(metavar="KIND …", help="All that can be, unless named.")] = None,
) -> None:
    """Export the brokers' programs from their images, for PLACEMENT=host."""
    wanted = [brokers.parse(kind) for kind in kinds or ()] or [one for one in brokers.contained() if one.exports()]
    for one in wanted:
        if not one.exports():
            raise BadInputError("KIND", one.kind, one.missing_on_host() or "it runs on this machine without an image")
    docker_placement.require()
    with lock.alone():
        client = engine.connect()
        _, failed = images.ensure_able(client, wanted)
        for kind, why in failed.items():
            print(f"testbed: left out: {kind}: its image cannot be built here: {why}", flush=True)
        able = [one for one in wanted if one.kind not in failed]
        if not able:
            raise BadInputError("KIND", ",".join(failed), "no image of these can be built here; name others")
        for one in able:
            root = images.export_broker(client, one)
            print(f"testbed: {one.kind} {root.version} is in {root.folder}", flush=True)


@app.command("images")
def build_images() -> None:
    """Pull or build every image, and write .env, so that `docker compose` works by hand."""
    docker_placement.require()
    with lock.alone():
        client = engine.connect()
        built = images.ensure(client)
        for service, image in built.record(client).items():
            print(f"testbed: {service}: {image['id'][:19]} on {image['digest'] or image['base']} ({image['origin']})")
        print(f"testbed: {by_hand.write(docker_placement.ROOT, client, built)} is written for docker compose by hand")


@app.command()
def clean() -> None:
    """Remove what a killed run left behind: containers, networks, volumes. Bundles, and a run under way, stay."""
    with lock.alone():
        for folder in credentials.remove_leftovers():
            print(f"testbed: removed {folder}")
        _clean()


def _clean() -> None:
    lack = engine.lacking()
    if lack and lack.absent and not engine.installed():
        print("testbed: no engine is installed here, and processes end with their runner: nothing was left behind")
        return
    if lack:
        raise TestbedError(
            f"{lack.reason}, so containers, networks and volumes of ours may still be there; {lack.remedy}, "
            "then `make clean` again"
        )
    client = engine.connect()
    projects = docker_placement.leftover_projects(client)
    for project in sorted(projects):
        docker_placement.remove(client, project)
        print(f"testbed: removed {project}")
    lowered = docker_placement.lower_rt_budgets(client)
    for file in lowered:
        print(f"testbed: put {file} back to 0")
    if not projects and not lowered:
        print("testbed: nothing was left behind")


def _given(swaps: list[str] | None) -> dict[str, str]:
    """What the user set; what chooses images is also left where Compose and `images` read it. Raises BadInputError."""
    families.REGISTRY.all()  # each may add variables of its own
    given = variables.given(swaps or [], os.environ)
    chosen = {name: given[name] for name in variables.IMAGES if name in given}
    variables.Settings.parse(chosen)
    os.environ.update(chosen)
    return given


def _require_images(planned: plan.Plan) -> None:
    """Plain processes have no image, and a name that nothing uses would be a label; raise BadInputError."""
    wanted = planned.settings.broker_image
    if wanted and all(cell.placement == "host" for cell in planned.cells):
        raise BadInputError("BROKER_IMAGE", wanted, "plain processes have no image; leave it out, or say BROKER=…")


def _require_one_machine(placements: set[str]) -> None:
    """Containers there and processes here differ by more than their placement; raise BadInputError."""
    if len(placements) > 1 and engine.is_far():
        raise BadInputError(
            "PLACEMENT", "+".join(sorted(placements)),
            "the engine is on another machine, so this would compare two machines; run it there",
        )  # fmt: skip


def _placement(settings: variables.Settings) -> tuple[str, str | None]:
    """Choose the placement, and what every reader must be told when it is not the one they would expect."""
    if settings.placement == "host":
        return "host", "placement host (plain processes): PLACEMENT=host"
    lack = engine.lacking()
    # An engine that is there but cannot be used is never passed over in silence: `require` refuses with the remedy.
    if lack is None or not lack.absent or settings.placement == "docker":
        return "docker", None
    return "host", f"placement host (plain processes): {lack.reason}"


def _stand(family: Family[Any], placement: str, pinned: dict[str, str] | None = None) -> Stand:
    """Make a family's stand in a placement; raise BadInputError where it cannot be had."""
    if placement not in family.stands:
        raise BadInputError("PLACEMENT", placement, f"the family {family.name} runs in {', '.join(family.stands)} only")
    if placement == "docker":
        docker_placement.require()
    return family.stands[placement](pinned or {})


def _each(values: Iterable[int]) -> str:
    """Every distinct value, once."""
    return " or ".join(map(str, sorted(set(values))))


def _say(console: Console, line: str) -> None:
    console.print(line, markup=False, soft_wrap=True)


def main() -> int:
    """Run the command line; an expected failure is one line on standard error."""
    try:
        app(standalone_mode=True)
    except TestbedError as error:
        complain("testbed", error)
        return error.exit_code
    except OSError as error:  # e.g. results/ cannot be written
        complain("testbed", error)
        return 1
    return 0
