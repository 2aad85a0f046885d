# SPDX-License-Identifier: Apache-2.0
"""What is otherwise here than where a bundle was made, and what each difference can do to a replay's result."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import docker.errors

from experiments import engine, host, images
from experiments.cpus import cpu_sets
from experiments.plan import Plan
from schema.bundle import Bundle


class Effect(enum.Enum):
    """What a difference can mean, the worst first."""

    BLOCKS = "may block the run"
    WEAKENS = "weakens what it shows"
    MOVES = "may move latency"


@dataclass(frozen=True)
class Fact:
    """A fact of the original and of this machine; `meaning` is what to expect where they differ."""

    name: str
    was: Any
    now: Any
    effect: Effect
    meaning: str

    @property
    def line(self) -> str:
        """As told before the replay starts."""
        return f"{self.effect.value}: {self.name} was {_plain(self.was)}, is {_plain(self.now)}: {self.meaning}"


def lines(recorded: Bundle, facts: list[Fact]) -> list[str]:
    """How many facts differ, then each, the worst first; what the bundle does not tell is no difference."""
    different = [fact for fact in facts if fact.was is not None and fact.was != fact.now]
    grouped = [fact.line for effect in Effect for fact in different if fact.effect is effect]
    what = f"replay of {recorded.name} of {recorded.started_utc[:19]}Z"
    if not grouped:
        return [f"{what}: nothing that was recorded of its surroundings differs here"]
    return [f"{what}: {len(grouped)} of {len(facts)} facts differ here", *grouped]


def here(recorded: Bundle, planned: Plan, pinned: Mapping[str, str]) -> list[Fact]:
    """Every fact that a bundle tells of its surroundings, beside this machine's; starts nothing."""
    facts = [*_of_host(recorded, planned), *_of_testbed(recorded, planned)]
    if any(cell.placement == "docker" for cell in planned.cells):
        facts += [*_of_engine(recorded), *_of_images(recorded, pinned)]
    return [*facts, *planned.family.differences(recorded, planned.cells)]


def _of_host(recorded: Bundle, planned: Plan) -> Iterator[Fact]:
    was, now = recorded.host, host.facts()
    real_time = any(
        setting in ("fifo", "rr")
        for cell in planned.cells
        for _, knob in cell.conditions.each_knob()
        for setting, _ in knob.settings()
    )
    groups = {knob.field for cell in planned.cells for _, knob in cell.conditions.each_knob()}
    limited = bool(groups & {"weight", "quota"})
    meanings = {
        "hostname_hash": (Effect.WEAKENS, "levels belong to one machine; what arms differ in travels better"),
        "machine": (Effect.WEAKENS, "another architecture runs other code: only directions can be expected to hold"),
        "cgroup": (
            Effect.WEAKENS if limited or real_time else Effect.MOVES,
            "weights, quotas and real-time budgets are kept by another controller; each is proved anew",
        ),
        "rt_group_sched": (
            Effect.BLOCKS if real_time else Effect.MOVES,
            "a real-time policy in a container needs a budget where the kernel keeps them; see `make doctor`",
        ),
        "cpus": (Effect.WEAKENS, "contention has more or fewer CPUs to fill, and the Pi may lose its own"),
        "cpu_model": (Effect.MOVES, "every program runs at another speed"),
        "kernel": (Effect.MOVES, "scheduler and network stack are others"),
        "memory_bytes": (Effect.MOVES, "matters to contention by memory and by files"),
        "os": (Effect.MOVES, "plain processes run on its libraries"),
        "python": (Effect.MOVES, "control loop and bridge are Python outside containers"),
    }
    for name, (effect, meaning) in meanings.items():
        yield Fact(_NAMES.get(name, name), getattr(was, name), now.get(name), effect, meaning)
    sides = dict(zip(("host", "pi"), cpu_sets(), strict=True))
    for side, cpus in sides.items():
        known = getattr(recorded.cpus, side) if recorded.cpus else None
        yield Fact(f"CPUs of the {side} side", known, cpus, Effect.MOVES, "what shares a CPU with what is otherwise")


_NAMES = {
    "hostname_hash": "machine (hashed name)",
    "machine": "architecture",
    "cgroup": "cgroup version",
    "cpus": "CPUs",
    "rt_group_sched": "RT_GROUP_SCHED",
    "cpu_model": "CPU model",
    "memory_bytes": "memory in bytes",
    "os": "operating system",
    "python": "Python",
}


def _of_testbed(recorded: Bundle, planned: Plan) -> Iterator[Fact]:
    was, now = recorded.git, host.git() or {}
    meaning = "the instrument itself may have changed; check that revision out to rule it out"
    yield Fact("revision", was.revision if was else None, now.get("revision"), Effect.WEAKENS, meaning)
    if was and was.dirty:
        yield Fact("checkout", "changed by hand", "another", Effect.WEAKENS, "what was changed then is not recorded")
    order = [tuple(pair) for pair in recorded.plan.order] or None
    if order != planned.order():
        yield Fact("order", order and "as recorded", "drawn anew", Effect.MOVES, "drift falls on other repetitions")


def _of_engine(recorded: Bundle) -> Iterator[Fact]:
    was = recorded.engine
    meaning = "networks and limits are set up by another program"
    version = engine.connect().version()["Version"]
    yield Fact("engine", was.version if was else None, version, Effect.MOVES, meaning)
    yield Fact(
        "Compose", was.compose if was else None, engine.compose_version(), Effect.MOVES, "older ones drop limits"
    )


def _of_images(recorded: Bundle, pinned: Mapping[str, str]) -> Iterator[Fact]:
    for service, image in sorted(recorded.images.items()):
        effect = Effect.WEAKENS if service.startswith("broker") else Effect.MOVES
        known = image.version or image.reference
        meaning = "built or pulled at another time, and perhaps of another version"
        same = service in pinned
        if service == "observer":
            meaning, same = "the observer is always the one of this checkout", image.id == _observer_id()
        now = known if same else "this checkout's"
        yield Fact(f"image of {service}", known, now, effect, meaning)


def _observer_id() -> str | None:
    """The image that the observer ran last; none before there was one."""
    try:
        return str(engine.connect().images.get(images.OBSERVER).id)
    except docker.errors.DockerException:
        return None


def _plain(value: Any) -> str:
    return {None: "not told", True: "yes", False: "no"}.get(value, str(value)) if not isinstance(value, str) else value
