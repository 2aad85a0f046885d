# SPDX-License-Identifier: Apache-2.0
"""Conditions on real stands: what is asked for is in force and proved, and what silently fails refuses the run."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stand import LOCK_PATIENCE_S, Runner, check_bundle, samples_of

from experiments import brokers, cli, engine, images, noise
from experiments.boards.model import Model
from experiments.brokers import mosquitto
from experiments.brokers.amqtt import Amqtt
from experiments.cpus import cpu_sets
from experiments.families.control.containers import ControlInContainers
from experiments.knobs.flags import NOTICE
from experiments.knobs.quota import Quota
from experiments.placements import RT_BUDGET_US
from experiments.variables import VARIABLES

SHORT = ("REPETITIONS=1", "MESSAGES=20", "INTERVALS=20")
DOCKER = (*SHORT, "PLACEMENT=docker")
HOST = (*SHORT, "PLACEMENT=host")
PARENTS_BUDGET = Path("/sys/fs/cgroup/cpu/docker/cpu.rt_runtime_us")
"""Only where cgroup version 1 keeps real-time budgets."""
OTHER_BROKERS = tuple(os.environ.get("BROKERS", "amqtt").split(","))
"""Beside Mosquitto. To build them all takes minutes: BROKERS=mochi,moquette,… names others than CI's."""


class Run:
    """What a run left, seen through its bundle."""

    def __init__(self, code: int, said: str, bundle: Path) -> None:
        self.code, self.said, self.bundle = code, said, bundle
        self.facts: dict[str, Any] = json.loads((bundle / "bundle.json").read_text())
        self.repetitions: list[dict[str, Any]] = self.facts["repetitions"]

    def check_complete(self) -> None:
        """Nothing refused, every message accounted for, every proof holding."""
        assert self.code == 0, self.said
        assert (self.facts["status"], self.facts["reason"]) == ("complete", None)
        check_bundle(self.bundle)
        assert all(proof["holds"] for proof in self.proofs())

    def proofs(self, service: str | None = None, knob: str | None = None) -> list[dict[str, Any]]:
        """The proofs of every repetition, of one service or of one knob; none is missing in any of them."""
        found = []
        for repetition in self.repetitions:
            mine = [
                proof for proof in repetition["proofs"]
                if service in {None, proof["service"]} and knob in {None, proof["knob"]}
            ]  # fmt: skip
            assert mine, f"no proof of {knob} on {service}"
            found += mine
        return found

    def observed(self, service: str, knob: str) -> Any:
        """What was read of a knob: the same in every repetition."""
        (value,) = {json.dumps(proof["observed"]["value"]) for proof in self.proofs(service, knob)}
        return json.loads(value)

    def threads(self, service: str) -> set[tuple[str, int]]:
        """(policy, priority) of every thread in every repetition."""
        threads = [thread for proof in self.proofs(service, "priority") for thread in proof["observed"]["threads"]]
        assert threads
        return {(thread["policy"], thread["priority"]) for thread in threads}

    def check_refused(self, *reasons: str) -> None:
        """Exit code 3, no sample counted, and each reason on a line of its own that names what and a remedy."""
        assert self.code == 3, self.said
        assert "Traceback" not in self.said
        assert self.facts["status"] == "refused"
        (repetition,) = self.repetitions
        assert (repetition["validity"], repetition["counted"]) == ("refused", False)
        assert len(repetition["reasons"]) == len(reasons)
        for told, expected in zip(repetition["reasons"], reasons, strict=True):
            assert expected in told
            assert "; " in told, "a remedy"
        assert reasons[0] in self.facts["reason"]
        assert f"testbed: refused: {self.facts['reason']}" in self.said
        check_bundle(self.bundle)


@pytest.fixture
def run(runner: Runner) -> Callable[..., Run]:
    def start(scenario: str, *swaps: str) -> Run:
        code, said = runner.run("run", scenario, *swaps)
        return Run(code, said, runner.bundle)

    return start


@pytest.fixture
def run_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Run]:
    """The same in this process, where a test can break things."""
    for name in {"MAKEFLAGS", *VARIABLES}:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)

    def once(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["experiments", "run", *arguments])
        try:
            code = cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        said = capfd.readouterr()
        return code, said.out + said.err

    def start(*arguments: str) -> Run:
        give_up_s = time.monotonic() + LOCK_PATIENCE_S
        while "another run is measuring" in (answer := once(*arguments))[1]:
            assert time.monotonic() < give_up_s, "somebody else's run does not end"
            time.sleep(0.2)
        return Run(*answer, tmp_path / "results" / "latest")

    return start


def budget() -> str | None:
    return PARENTS_BUDGET.read_text() if PARENTS_BUDGET.exists() else None


@pytest.mark.engine
def test_fifo_is_in_force_on_every_thread_and_the_budget_put_back(run: Callable[..., Run]) -> None:
    before = budget()
    done = run("5", *DOCKER)
    done.check_complete()
    for service in ("broker", "control-loop"):
        assert done.threads(service) == {("SCHED_FIFO", 90)}
        if before is not None:
            assert done.observed(service, "rt budget") == f"{RT_BUDGET_US // 2} us"
    for service in ("pi", "board", "stressor"):
        assert done.threads(service) == {("SCHED_OTHER", 0)}
    assert budget() == before
    assert done.repetitions[0]["contention"]["processes"] == 12
    assert done.repetitions[0]["contention"]["cpu_seconds"] > 0


@pytest.mark.engine
def test_the_published_flags_permit_and_apply_nothing_and_the_output_says_so(run: Callable[..., Run]) -> None:
    done = run("5", *DOCKER, "PRIORITY=published")
    done.check_complete()
    for service in ("broker", "control-loop"):
        assert done.threads(service) == {("SCHED_OTHER", 0)}
        assert {proof["requested"] for proof in done.proofs(service, "priority")} == {"flags"}
    assert f"testbed: {NOTICE}" in done.said


@pytest.mark.engine
def test_knobs_together_hold_on_one_service(run: Callable[..., Run]) -> None:
    pi_cpus = cpu_sets()[1]
    done = run(
        "0", *DOCKER, f"PRIORITY=broker=nice:5+weight:2048+cpus:{pi_cpus}+quota:0.5,control-loop=rr:7+weight:512"
    )
    done.check_complete()
    assert done.observed("broker", "priority") == "SCHED_OTHER nice 5"
    assert done.observed("broker", "affinity") == [int(cpu) for cpu in pi_cpus.split(",")]
    assert done.observed("broker", "quota") == 0.5
    assert done.observed("broker", "weight") in {"shares 2048", "weight 79", "weight 174"}
    assert done.threads("control-loop") == {("SCHED_RR", 7)}
    assert done.observed("control-loop", "weight") in {"shares 512", "weight 20", "weight 59"}
    assert done.observed("pi", "weight") == "default"


@pytest.mark.engine
def test_every_qos_holds_on_both_hops_under_a_flood(run: Callable[..., Run]) -> None:
    done = run("8", *DOCKER)
    done.check_complete()
    seen = set()
    for repetition in done.repetitions:
        qos = done.facts["plan"]["cells"][repetition["cell"]]["qos"]
        proofs = {proof["knob"]: proof["observed"]["value"] for proof in repetition["proofs"]}
        assert proofs["qos granted"] == qos
        assert proofs["qos of requests, answers"] == [[qos, qos]]
        assert repetition["contention"]["failed_connects"] == 0
        seen.add(qos)
    assert seen == {0, 1, 2}
    assert done.threads("control-loop") == {("SCHED_FIFO", 90)}


@pytest.mark.engine
@pytest.mark.parametrize("level", ["saturate", "50%"])
def test_a_flood_of_a_known_strength_runs_and_accounts_for_every_message(run: Callable[..., Run], level: str) -> None:
    done = run("7", *DOCKER, f"FLOOD={level}")
    done.check_complete()
    for repetition in done.repetitions:
        told = repetition["contention"]
        assert told["offered"] == told["sent"] + told["unsent"]
        assert told["sent"] == told["delivered"] + told["dropped"]
        assert told["sent"] > 0
        assert (told["kind"], told["level"], told["failed_connects"]) == ("flood", level, 0)
        if level == "50%":
            assert told["asked"]["rate"] == pytest.approx(done.facts["broker_capacity_per_s"] / 2, abs=0.1)
            assert told["sent"] / told["elapsed_s"] >= 0.8 * told["asked"]["rate"]


@pytest.mark.engine
@pytest.mark.parametrize(("contention", "processes"), [("memory", 5), ("io", 7), ("slow-consumer", None)])
def test_the_other_contentions_run_as_asked(run: Callable[..., Run], contention: str, processes: int | None) -> None:
    done = run("1", *DOCKER, f"CONTENTION={contention}")
    done.check_complete()
    assert {row["contention"] for row in done.facts["plan"]["cells"]} == {contention}
    for repetition in done.repetitions:
        told = repetition["contention"]
        assert told["kind"] == contention
        if processes:
            assert told["processes"] == processes
        else:
            assert told["asked"]["slow_consumers"] == 5
            assert told["connects"] >= 15
            assert told["sent"] == told["delivered"] + told["dropped"]


# What silently fails: an engine, a broker, a board that does not do as it was told.


@pytest.mark.engine
def test_an_engine_that_drops_a_cpu_limit_is_caught(
    run_here: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Quota, "compose", lambda _self: {})  # as Compose did: docker/compose#9268
    done = run_here("0", *DOCKER, "PRIORITY=broker=quota:0.5")
    done.check_refused("broker: quota should be 0.5 (quota:0.5) but reads None; this engine or kernel dropped it")
    assert done.facts["plan"]["cells"][0]["knobs"]["broker"]["quota"] == "quota:0.5"


@pytest.mark.engine
def test_a_broker_with_nagle_on_another_configuration_is_caught(
    run_here: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    nagle = ["/usr/sbin/mosquitto", "-c", "/mosquitto/config/nagle.conf"]
    ours = ControlInContainers._override

    def override(stand: ControlInContainers, conditions: Any) -> dict[str, Any]:
        services = ours(stand, conditions)["services"]
        services["broker"] = {"command": nagle}
        return {"services": services}

    monkeypatch.setattr(ControlInContainers, "_override", override)
    done = run_here("0", *DOCKER)
    done.check_refused("broker: tcp should be nodelay (nodelay) but reads nagle; ", "broker: configuration should be ")


@pytest.fixture(scope="session")
def brokers_built() -> None:
    """Built before a run that must not wait for it."""
    images.ensure(engine.connect(), [brokers.parse(kind) for kind in OTHER_BROKERS])


@pytest.mark.engine
@pytest.mark.usefixtures("brokers_built")
@pytest.mark.parametrize("kind", OTHER_BROKERS)
def test_a_broker_delivers_at_the_qos_that_its_folder_says_and_at_no_other(
    run_here: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    broker = brokers.parse(kind)
    able = [qos for qos in range(3) if broker.delivers[qos] == qos]
    for tcp in broker.tcp:
        done = run_here("0", *DOCKER, f"BROKER={kind}", f"QOS={','.join(map(str, able))}", f"TCP={tcp}")
        done.check_complete()
        assert done.observed("broker", "tcp") == tcp
        assert done.facts["images"][broker.image_of]["version"].startswith(kind)
        assert set(done.facts["images"]) >= {broker.image_of, "pi"}
        assert "broker" not in done.facts["images"]
    for qos in {*range(3)} - {*able}:
        done = run_here("0", *DOCKER, f"BROKER={kind}", f"QOS={qos}")
        assert (done.code, done.said.startswith(f"testbed: QOS={qos}: {kind} delivers that at ")) == (2, True)
        with monkeypatch.context() as patch:
            patch.setattr(brokers.Broker, "check_qos", lambda *_: None)
            done = run_here("0", *DOCKER, f"BROKER={kind}", f"QOS={qos}")
        assert done.code == 3
        assert re.search(rf"grants QoS {broker.delivers[qos]} |qos .* reads .*{broker.delivers[qos]}", done.said)


GRANTS_QOS_1 = """
from amqtt.broker import Broker
from amqtt.scripts.broker_script import main
ours = Broker.add_subscription
async def stingy(broker, subscription, session):
    topic, qos = subscription
    return await ours(broker, (topic, min(1, qos) if "/HOP" in topic else qos), session)
Broker.add_subscription = stingy
main()
"""


@pytest.mark.parametrize(
    ("hop", "told"),
    [
        ("answer", "the broker grants QoS 1 where 2 was asked for; choose a lower QOS"),
        ("request", "broker: qos of requests, answers should be 2, 2 (2, 2) but reads [(1, 2)]; "),
    ],
)
def test_a_broker_that_grants_a_lower_qos_on_either_hop_is_caught(
    run_here: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, hop: str, told: str
) -> None:
    program, ours = tmp_path / "stingy.py", Amqtt.host_command
    program.write_text(GRANTS_QOS_1.replace("HOP", hop))

    def stingy(*arguments: Any, **options: Any) -> list[str]:
        return [sys.executable, str(program), *ours(*arguments, **options)[1:]]

    monkeypatch.setattr(Amqtt, "host_command", stingy)
    done = run_here("0", *HOST, "BROKER=amqtt", "QOS=2")
    done.check_refused(told)


ANSWERS_TWICE = """
import os, tty
from firmware import protocol
master, slave = os.openpty()
tty.setraw(slave)
print("ready", os.ttyname(slave), flush=True)
heard = b""
while True:
    heard += os.read(master, 100)
    *lines, heard = heard.split(b"\\n")
    for line in filter(None, lines):
        text = b"=" + line[1:5] + b"%+06d" % 2500
        os.write(master, 2 * (text + b"%02X\\n" % protocol.crc8(text)))
"""


def test_a_board_that_answers_twice_is_caught(run_here: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Model, "on_host", lambda _self, start: start([sys.executable, "-c", ANSWERS_TWICE]))
    done = run_here("1", *HOST, "DEVICE=model")
    done.check_refused("board: answers once should be 0 repeated (0 repeated) but reads ")
    assert done.repetitions[0]["counts"]["ok"] == 20, "the samples are there, one a cycle, and not counted"
    assert {row["status"] for row in samples_of(done.bundle)} == {"ok"}


# The noise rule, made to bite.


def counted(done: Run) -> list[tuple[int, int | None, str, bool]]:
    return [(each["repetition"], each["rerun_of"], each["validity"], each["counted"]) for each in done.repetitions]


@pytest.fixture
def noise_on(monkeypatch: pytest.MonkeyPatch) -> Callable[[set[int]], None]:
    """Make the n-th repetitions of a run noisy, and no others, whatever this host does."""
    judge = noise.reasons

    def decide(noisy: set[int]) -> None:
        judged: list[int] = []

        def reasons(measured: dict[str, Any], *, disturbed: bool) -> list[str]:
            judged.append(1)
            limit = -1.0 if len(judged) in noisy else 1e12
            for name in noise.RULE:
                monkeypatch.setitem(noise.RULE, name, limit if name == "lateness_p99_us" else 1e12)
            return judge(measured, disturbed=disturbed)

        monkeypatch.setattr(noise, "reasons", reasons)

    return decide


def test_a_noisy_repetition_runs_once_more_and_one_of_the_two_counts(
    run_here: Callable[..., Run], noise_on: Callable[[set[int]], None]
) -> None:
    noise_on({2})
    done = run_here("0", *HOST, "REPETITIONS=3", "INTERVALS=5")
    done.check_complete()
    assert counted(done) == [
        (1, None, "valid", True), (2, None, "noisy", False), (3, None, "valid", True), (4, 2, "valid", True),
    ]  # fmt: skip
    (reason,) = done.repetitions[1]["reasons"]
    assert reason.startswith("lateness_p99_us ")
    assert len({row["repetition"] for row in samples_of(done.bundle)}) == 4, "kept, not dropped"


def test_on_a_host_that_stays_noisy_the_first_ones_count_and_repeating_ends(
    run_here: Callable[..., Run], noise_on: Callable[[set[int]], None]
) -> None:
    noise_on(set(range(100)))
    done = run_here("0", *HOST, "REPETITIONS=3", "INTERVALS=5")
    done.check_complete()
    assert counted(done) == [
        (1, None, "noisy", True), (2, None, "noisy", True), (3, None, "noisy", True),
        (4, 1, "noisy", False), (5, 2, "noisy", False),
    ]  # fmt: skip


@pytest.mark.engine
def test_tls_is_proved_on_both_clients_and_the_flood_speaks_it_too(run: Callable[..., Run]) -> None:
    done = run("7", *DOCKER, "DEVICE=none", "SECURITY=tls", "TCP=nagle")
    done.check_complete()
    for service in ("control-loop", "pi"):
        for held in done.proofs(service, "security"):
            connection = held["observed"]["connection"]
            assert (connection["user"], connection["tls"]) == ("testbed", "TLSv1.3")
    assert done.repetitions[0]["contention"]["failed_connects"] == 0
    assert b"PRIVATE KEY" not in b"".join(path.read_bytes() for path in done.bundle.rglob("*") if path.is_file())


@pytest.mark.engine
def test_a_broker_that_lets_strangers_in_all_the_same_is_refused(
    run_here: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = mosquitto.protected
    monkeypatch.setattr(
        mosquitto, "protected", lambda *asked: before(*asked).replace("anonymous false", "anonymous true")
    )
    done = run_here("0", *DOCKER, "SECURITY=password")
    done.check_refused("broker: security should be password (password) but reads none")
