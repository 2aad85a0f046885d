# SPDX-License-Identifier: Apache-2.0
"""What a user may swap: a wrong value stops before anything starts, in one line that says what is allowed."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stand import ROOT, undisturbed

from experiments import cli, variables
from experiments.errors import BadInputError
from experiments.variables import VARIABLES, Settings

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`python -m experiments` in an empty folder: exit code, standard output, standard error."""

    def run(*arguments: str, **environment: str) -> tuple[int, str, str]:
        for name in {"MAKEFLAGS", *VARIABLES}:
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["experiments", *arguments])
        try:
            code = cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        said = capsys.readouterr()
        assert not list(tmp_path.iterdir()), "something was started"
        return code, said.out, said.err

    return run


NUMBERS = (
    "INTERVALS",
    "QOS",
    "QOS_ANSWER",
    "MESSAGES",
    "REPETITIONS",
    "WARMUP",
    "TIMEOUT_MS",
    "DEADLINE_MS",
    "SEED",
    "FAULT_AT_MS",
)
WRONG = [
    *((name, value, "from") for name in NUMBERS for value in ("", "x", "-1", "1.5", "9" * 12, "1e3", "٣")),
    ("INTERVALS", "20,", "from 1 to 60000"), ("INTERVALS", "0", "from 1 to 60000"), ("INTERVALS", "20,20", "once"),
    ("QOS", "3", "from 0 to 2"), ("QOS", "0 1", "from 0 to 2"), ("QOS", "1,1", "once"), ("QOS_ANSWER", "0,1", "0 to 2"),
    ("MESSAGES", "0", "from 1"), ("REPETITIONS", "0", "from 1"), ("TIMEOUT_MS", "0", "from 1"),
    ("DEADLINE_MS", "0", "from 1"), ("PRECISION", "0%", "above 0"), ("PRECISION", "tight", "e.g. 10%"),
    ("ASSERT", "O.p99<5", "needs a unit"), ("ASSERT", "fast", "say e.g. T.p99<5ms"),
    ("PRECISION", "101%", "up to 100%"), ("PRECISION", "1e1", "e.g. 10%"),
    ("DEVICE", "arduino", "none, simavr, usb"), ("DEVICE", "model:x", "no argument"), ("DEVICE", "usb", "which port"),
    ("DEVICE", "usb:ttyUSB0", "which port"), ("DEVICE", "usb:/dev/not-there", "not there"),
    ("SECURITY", "ssl", "none, password, tls"),
    ("PLACEMENT", "cloud", "docker, host"), ("PLACEMENT", "Docker", "docker, host"), ("TCP", "on", "nodelay, nagle"),
    ("BROKER", "rabbit", "mosquitto, ponte, rabbitmq"), ("BROKER", "amqtt,amqtt", "each once"),
    ("BROKER", "rabbitmq", "outlive the run; say PLACEMENT=docker"),
    ("PRIORITY", "broker", "say e.g."),
    ("PRIORITY", "broker=fifo:200", "from 1 to 99"), ("PRIORITY", "toaster=fifo:1", "services are"),
    ("CONTENTION", "earthquake", "allowed"), ("FIDELITY", "high", "published"), ("FLOOD", "wet", ""),
    ("SESSION", "durable", "clean, persistent"),
    ("BROKER_IMAGE", "two words", "an image's name"), ("BASE_IMAGE", "-x", "an image's name"),
    ("FAULT", "broker", "broker:kill"), ("FAULT", "broker:freeze", "e.g. broker:freeze:2s"),
    ("FLOOD", "٥٠%", ""), ("YES", "maybe", "allowed are 1"), ("YES", "yes", "allowed are 1"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "allowed"), WRONG)
def test_a_wrong_value_is_named_with_what_is_allowed(command: Command, name: str, value: str, allowed: str) -> None:
    placement = () if name == "PLACEMENT" else ("PLACEMENT=host",)
    code, out, err = command("run", "1", *placement, f"{name}={value}")
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert err.startswith(f"testbed: {name}=")
    assert value.rsplit("=", maxsplit=1)[-1] in err
    assert allowed in err


def test_every_variable_is_among_those_tried() -> None:
    assert {name for name, _, _ in WRONG} == set(VARIABLES)


def test_an_unknown_variable_is_told_with_the_one_that_was_meant(command: Command) -> None:
    code, out, err = command("run", "1", "PLACEMENT=host", "INTERVAL=20")
    assert (code, out) == (2, "")
    assert err.startswith("testbed: INTERVAL=20: no such variable; did you mean INTERVALS? ")


def test_an_unknown_scenario_is_told_with_those_there_are(command: Command) -> None:
    code, _, err = command("run", "99", "PLACEMENT=host")
    assert (code, err) == (2, "testbed: scenario=99: allowed are 0, 1, 2, 3, 4, 5, 6, 7, 8\n")


def test_a_word_without_a_value_is_no_swap(command: Command) -> None:
    code, _, err = command("run", "1", "fast")
    assert (code, err) == (2, "testbed: argument=fast: variables are given as NAME=VALUE\n")


def test_the_environment_counts_too(command: Command) -> None:
    assert command("run", "1", "PLACEMENT=host", QOS="7")[0] == 2


def test_without_an_engine_placement_docker_names_the_remedies(command: Command) -> None:
    code, _, err = command("run", "1", "PLACEMENT=docker", DOCKER_HOST="unix:///nonexistent.sock")
    assert code == 2
    assert err.startswith("testbed: PLACEMENT=docker: no container engine answers: `make engine`")


def test_a_run_with_a_capture_is_refused_as_plain_processes(command: Command) -> None:
    code, _, err = command("path", "1", "PLACEMENT=host")
    assert code == 2
    assert err.startswith("testbed: PLACEMENT=host: a capture needs the broker's own network; ")


def test_bench_refuses_what_would_change_its_schedule(command: Command) -> None:
    code, _, err = command("bench", "PLACEMENT=host", "MESSAGES=5")
    assert code == 2
    assert err == "testbed: MESSAGES=5: bench has a fixed schedule; it takes only PLACEMENT and BROKER\n"


@pytest.mark.parametrize(
    ("asserted", "repetitions", "told"),
    [("T.p99.9<1s", "10", "needs 2995 cycles, the run has 1000"), ("T.avg<1s", "2", "an interval needs REPETITIONS=3")],
)
def test_what_a_run_is_too_short_to_show_is_refused(
    command: Command, asserted: str, repetitions: str, told: str
) -> None:
    code, _, err = command("run", "1", "PLACEMENT=host", f"ASSERT={asserted}", f"REPETITIONS={repetitions}")
    assert code == 2
    assert err.startswith(f"testbed: ASSERT={asserted}: {told}")


def test_an_assertion_about_an_arm_that_is_not_there_is_refused(command: Command) -> None:
    code, _, err = command("study", "qos", "PLACEMENT=host", "ASSERT=nodelay:T.p50<9ms,fifo:T.p50<5ms")
    assert code == 2
    assert err == "testbed: ASSERT=fifo:T.p50<5ms: no such arm; arms are nodelay, nagle\n"
    assert "arms are none" in command("run", "1", "PLACEMENT=host", "ASSERT=fifo:T.p50<5ms")[2]


@pytest.mark.parametrize("listing", ["scenarios", "variables", "--help"])
def test_the_lists_can_be_read_anywhere(command: Command, listing: str) -> None:
    code, out, err = command(listing)
    assert (code, err) == (0, "")
    assert len(out.splitlines()) > 5


@pytest.mark.parametrize(
    ("makeflags", "found"),
    [
        ("", {}), ("rR", {}), (" -- INTERVALS=20", {"INTERVALS": "20"}),
        ("-j2 -- QOS=0,1 SEED=7", {"QOS": "0,1", "SEED": "7"}),
        (" --jobserver-auth=3,4 -j -- TCP=nagle", {"TCP": "nagle"}), (" -- INTERVAL=20", {"INTERVAL": "20"}),
        (" -- PYTHON=python3.12 VENV=/tmp/v", {}),
    ],
)  # fmt: skip
def test_makes_command_line_is_read_from_makeflags(makeflags: str, found: dict[str, str]) -> None:
    assert variables.given([], {"MAKEFLAGS": makeflags}) == found


def test_a_word_of_ours_beats_make_and_make_beats_the_environment() -> None:
    # make exports what its command line sets.
    environment = {"QOS": "0", "SEED": "2", "MESSAGES": "6", "MAKEFLAGS": " -- SEED=2 MESSAGES=6"}
    assert variables.given(["MESSAGES=7"], environment) == {"QOS": "0", "SEED": "2", "MESSAGES": "7"}


@pytest.mark.parametrize(
    ("argument", "told"),
    [
        ("INTERVALS=0", "testbed: INTERVALS=0: "),
        ("MESAGES=3", "did you mean MESSAGES?"),
        ("DEVICE=usb:/dev/a b", "a b"),
    ],
)
def test_a_real_make_hands_its_command_line_on(tmp_path: Path, argument: str, told: str) -> None:
    (tmp_path / "Makefile").write_text(f"run:\n\t@{sys.executable} -m experiments run 1 PLACEMENT=host\n")
    done = subprocess.run(
        ["make", "-j2", "run", argument], cwd=tmp_path, env=undisturbed() | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert told in done.stderr
    assert "Error 2" in done.stderr


@given(st.sampled_from(sorted(VARIABLES)), st.text(max_size=12))
def test_whatever_is_given_is_read_or_refused_by_name(name: str, value: str) -> None:
    refusal = ""
    try:
        settings = Settings.parse({name: value})
        assert getattr(settings, variables.field_of(name)) is not None
    except BadInputError as error:
        refusal = str(error)
    assert not refusal or refusal.startswith(f"{name}=")


HOSTILE = [
    "9" * 5000, "-" + "9" * 5000, "$(touch broken)", "`touch broken`", "; touch broken", "a b", "\n",
    "\x1b[2J", "\u202e", "٥٠", "usb:/dev/../etc/passwd", "usb:/dev/\0", "usb:" + "/dev/" * 5000, "cpus:" + "9" * 5000,
    "broker=cpus:0-99999",
    "broker=nice:" + "9" * 5000, "broker=quota:" + "1" * 5000, "broker=quota:nan", "broker=weight:1e9", "=", "broker=",
    "=" * 3000, "{}", "%s", "\\", "None", "flags", "broker=fifo:0x10", "50%%", "0050%", "mqtt-stresser:x",
]  # fmt: skip


@given(
    st.sampled_from(sorted(VARIABLES)), st.one_of(st.text(max_size=40), st.sampled_from(HOSTILE)),
    st.sampled_from(["run", "study", "path", "all"]),
    st.one_of(st.sampled_from(["1", "0", "qos"]), st.text(max_size=8)),
)  # fmt: skip
def test_whatever_is_given_for_whatever_a_plan_is_made_or_refused_in_one_line(
    name: str, value: str, verb: str, target: str
) -> None:
    """As far as the plan: what would be started is caught instead."""
    planned: list[object] = []

    def catch(plan: object, *_: object) -> tuple[int, Path]:
        planned.append(plan)
        return 0, Path()

    words = [verb, *([] if verb == "all" else ["--", target]), f"{name}={value}"]
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        for variable in {"MAKEFLAGS", *VARIABLES}:
            patch.delenv(variable, raising=False)
        patch.setattr(sys, "argv", ["experiments", *words])
        patch.setattr(cli, "_run", catch)
        patch.setattr(cli, "RESULTS", Path(os.devnull).parent / "no" / "results")
        patch.setattr(cli.engine, "lacking", lambda: None)
        patch.setattr(cli.lock, "alone", contextlib.nullcontext)
        patch.setattr(Path, "write_text", lambda *_: 0)
        try:
            code = cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
    assert code in {0, 2}, (words, err.getvalue())
    assert "Traceback" not in err.getvalue()
    if code == 2:
        assert not planned
        if err.getvalue().startswith("testbed: "):
            assert len(err.getvalue().splitlines()) == 1
            assert err.getvalue().rstrip("\n").isprintable()


def test_a_run_over_a_day_says_how_long_and_asks_whether_it_is_meant(command: Command) -> None:
    code, out, err = command(
        "run", "0", "PLACEMENT=host", "INTERVALS=1", "MESSAGES=1000000", "REPETITIONS=10000", "WARMUP=0"
    )
    assert (code, out) == (2, "")
    assert "10000 repetitions of 1 cells take 115.7 days by their schedule alone; say YES=1" in err


def test_a_seed_is_drawn_and_recorded_where_none_is_given() -> None:
    assert len({Settings.parse({}).seed for _ in range(5)}) > 1
    assert Settings.parse({"SEED": "7"}).seed == 7
