# SPDX-License-Identifier: Apache-2.0
"""A bundle of Debian 12 and its replay on Debian 13: each verifies, and what is said of the two is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.judging import reproduction
from analysis.reading.bundle import read
from analysis.showing.verify import verify
from experiments import differences, engine, host
from experiments.replay import Recorded

HOSTS = Path(__file__).parent / "data" / "hosts"
TWELVE, THIRTEEN = HOSTS / "debian-12", HOSTS / "debian-13"
MACHINES = {
    TWELVE: ("6.18.44-fc-v595", "hybrid", True, "3.11.7", "AMD EPYC", 25_276_514_304, "Debian GNU/Linux 12 (bookworm)"),
    THIRTEEN: (
        "6.12.107+deb13-amd64", "v2", False, "3.13.5", "QEMU TCG CPU version 2.5+", 6_217_900_032,
        "Debian GNU/Linux 13 (trixie)",
    ),
}  # fmt: skip
FACTS = ("kernel", "cgroup version", "RT_GROUP_SCHED", "Python", "CPU model", "memory in bytes", "operating system")


class EngineOf:
    """The engine of a bundle's machine, as far as a replay asks it."""

    def __init__(self, bundle: dict[str, Any]) -> None:
        self._bundle = bundle
        self.images = self

    def version(self) -> dict[str, Any]:
        return {"Version": self._bundle["engine"]["version"]}

    def get(self, _name: str) -> Any:
        return type("Image", (), {"id": self._bundle["images"]["observer"]["id"]})


def told(bundle: Path, there: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[Any, Any, str]]:
    """What a replay of a bundle says on the machine of another: (was, is, effect) by fact that differs."""
    original, machine = Recorded.read(bundle), Recorded.read(there).facts.model_dump()
    monkeypatch.setattr(host, "facts", lambda: machine["host"])
    monkeypatch.setattr(host, "git", lambda: machine["git"])
    monkeypatch.setattr(engine, "connect", lambda: EngineOf(machine))
    monkeypatch.setattr(engine, "compose_version", lambda: machine["engine"]["compose"])
    monkeypatch.setattr(differences, "cpu_sets", lambda: (machine["cpus"]["host"], machine["cpus"]["pi"]))
    facts = differences.here(original.facts, original.plan("89abcdef"), {})
    return {fact.name: (fact.was, fact.now, fact.effect.value) for fact in facts if fact.was != fact.now}


@pytest.mark.parametrize("bundle", [TWELVE, THIRTEEN], ids=lambda path: path.name)
def test_each_verifies_wherever_it_was_made(bundle: Path) -> None:
    report = verify(bundle)
    assert report.findings == ()
    assert any("proofs hold" in line for line in report.held)


@pytest.mark.parametrize(("bundle", "there"), [(TWELVE, THIRTEEN), (THIRTEEN, TWELVE)], ids=["to 13", "to 12"])
def test_a_replay_there_would_name_what_differs_and_nothing_else(
    bundle: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    different = told(bundle, there, monkeypatch)
    for name, was, now in zip(FACTS, MACHINES[bundle], MACHINES[there], strict=True):
        assert different.pop(name) == (was, now, "may move latency")
    assert different.pop("machine (hashed name)")[2] == "weakens what it shows"
    assert set(different) == {f"image of {service}" for service in Recorded.read(bundle).facts.images}


def test_nothing_differs_on_the_machine_that_made_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for bundle in (TWELVE, THIRTEEN):
        assert [name for name in told(bundle, bundle, monkeypatch) if not name.startswith("image of ")] == []


def test_the_replay_is_judged_claim_by_claim() -> None:
    """Three repetitions against three can decide nothing at 5 %, however far an emulated machine is from a real one."""
    original, replay = read(TWELVE), read(THIRTEEN)
    found = reproduction.outcomes(original, replay)
    assert {outcome.verdict for outcome in found} == {reproduction.OPEN}
    levels = {outcome.claim.rpartition(": ")[2]: (outcome.original, outcome.replay) for outcome in found}
    assert levels["median of T"] == ("5.91 ms", "108 ms")
    assert levels["median of R"] == ("4.71 ms", "27.4 ms")
    assert levels["share of lost cycles"] == ("0 %", "26.7 %")
    assert "Of the headline, 0 of 1 claims were reproduced, 0 contradicted" in reproduction.summary(found)
    assert "Why not: losses leave the interval open." in reproduction.summary(found)
    assert "another machine" in str(reproduction.caveat(original, replay))
