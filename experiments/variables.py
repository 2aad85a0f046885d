# SPDX-License-Identifier: Apache-2.0
"""The variables a user swaps per run (`make scenario-1 INTERVALS=20`), read and checked before anything starts."""

from __future__ import annotations

import difflib
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields

from experiments.errors import BadInputError
from schema import bounds, looks

Parser = Callable[[str, str], object]


def _whole(name: str, text: str, low: int, high: int, of: str | None = None) -> int:
    """Read a number that stands alone, or is a part of the value `of`."""
    if not (re.fullmatch(r"[0-9]{1,20}", text) and low <= int(text) <= high):
        allowed = "a whole number" if of is None else "whole numbers, parted by commas,"
        raise BadInputError(
            name, text if of is None else of, f"{allowed} from {low} to {high} {'is' if of is None else 'are'} allowed"
        )
    return int(text)


def whole(low: int, high: int) -> Parser:
    """One whole number within bounds."""
    return lambda name, text: _whole(name, text, low, high)


def wholes(low: int, high: int) -> Parser:
    """Whole numbers within bounds, parted by commas, none twice."""

    def parse(name: str, text: str) -> tuple[int, ...]:
        values = tuple(_whole(name, part.strip(), low, high, text) for part in text.split(","))
        if len(set(values)) != len(values):
            raise BadInputError(name, text, "each value once")
        return values

    return parse


def word(*allowed: str) -> Parser:
    """One of a few words."""

    def parse(name: str, text: str) -> str:
        if text not in allowed:
            raise BadInputError(name, text, f"allowed are {', '.join(allowed)}")
        return text

    return parse


def percent(high: float) -> Parser:
    """A share in per cent, above 0; the sign may be left out."""

    def parse(name: str, text: str) -> float:
        number = text.removesuffix("%").strip()
        plain = number.isascii() and number.replace(".", "", 1).isdigit()
        if not (plain and 0 < float(number) <= high):
            raise BadInputError(name, text, f"a share above 0 and up to {high:g}% is allowed, e.g. 10%")
        return float(number)

    return parse


def image(name: str, text: str) -> str:
    """An image as engines name it: a reference, or an id."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}", text):
        raise BadInputError(name, text, "an image's name is allowed, e.g. eclipse-mosquitto:2.0.22")
    return text


def listed(_name: str, value: str) -> tuple[str, ...]:
    """Values parted by commas, read by whoever knows what they mean."""
    return tuple(part.strip() for part in value.split(","))


def text(_name: str, value: str) -> str:
    """Left to whoever knows the kinds: see the packages boards, brokers, …."""
    return value


@dataclass(frozen=True)
class Variable:
    """How a variable is read, and its line in the help."""

    parse: Parser
    help: str


VARIABLES = {
    "INTERVALS": Variable(wholes(*bounds.INTERVAL_MS), "ms between requests, e.g. 100,50,20,10"),
    "QOS": Variable(wholes(*bounds.QOS), "MQTT quality of service of both hops, e.g. 0,1,2"),
    "QOS_ANSWER": Variable(whole(*bounds.QOS), "QoS of the answers alone (the thesis: 0); default: as the requests"),
    "MESSAGES": Variable(whole(*bounds.MESSAGES), "cycles a repetition; default 100"),
    "REPETITIONS": Variable(whole(*bounds.REPETITIONS), "repetitions a cell; default 10, with PRECISION at most 40"),
    "PRECISION": Variable(percent(100), "run until the headline is known within ± so much, or a verdict stands: 10%"),
    "WARMUP": Variable(whole(*bounds.WARMUP), "cycles before them, kept but not counted; default 5"),
    "TIMEOUT_MS": Variable(whole(*bounds.TIMEOUT_MS), "an answer after this is late; default 1000"),
    "DEADLINE_MS": Variable(whole(*bounds.DEADLINE_MS), "a later answer misses its deadline; default: the interval"),
    "DEVICE": Variable(text, "the board: simavr, model, usb:/dev/ttyUSB0, none"),
    "PLACEMENT": Variable(word(*bounds.PLACEMENTS), "docker or host; default: docker where an engine answers"),
    "TCP": Variable(word("nodelay", "nagle"), "Nagle's algorithm off or on, at both clients and the broker"),
    "SECURITY": Variable(word("none", "password", "tls"), "what the broker asks of its clients: none, password, tls"),
    "BROKER": Variable(text, "mosquitto, amqtt, …; several, parted by commas, are compared; see `brokers`"),
    "PRIORITY": Variable(text, "broker=fifo:90,control-loop=nice:-10+weight:4096, none, or published"),
    "CONTENTION": Variable(text, "what disturbs: none, cpu, flood, memory, io, slow-consumer"),
    "FLOOD": Variable(text, "how hard: published, saturate, or a part of what this broker takes, e.g. 50%"),
    "FAULT": Variable(text, "what breaks in the middle: none, broker:kill, broker:freeze:2s, …; see docs/faults.md"),
    "FAULT_AT_MS": Variable(whole(*bounds.FAULT_AT_MS), "when, after the first counted cycle; default: half-way"),
    "SESSION": Variable(word(*bounds.SESSIONS), "of control loop and Pi: clean, or persistent over a fault"),
    "FIDELITY": Variable(word("published"), "published: the thesis as it was (Nagle, flags, its flood, QoS 0)"),
    "ASSERT": Variable(listed, "what the run must show, judged on the interval: O.p99<5ms,fifo both:misses<1%"),
    "BROKER_IMAGE": Variable(image, "in containers: the image that the broker's is built on, or from-debian"),
    "BASE_IMAGE": Variable(image, "in containers: what all others are built on; default: debian:trixie-slim"),
    "SEED": Variable(whole(*bounds.SEED), "fixes the order of the cells; default: drawn and recorded"),
    "YES": Variable(word("1"), "1: start even a run that takes longer than a day"),
}


def field_of(name: str) -> str:
    """The field of a variable; one is a word of the language."""
    return "assert_" if name == "ASSERT" else name.lower()


@dataclass(frozen=True)
class Settings:
    """A run's swaps; None leaves what the scenario or the host decides."""

    intervals: tuple[int, ...] | None = None
    qos: tuple[int, ...] | None = None
    qos_answer: int | None = None
    messages: int = 100
    repetitions: int = 10
    precision: float | None = None
    warmup: int = 5
    timeout_ms: int = 1000
    deadline_ms: int | None = None
    device: str | None = None
    placement: str | None = None
    tcp: str | None = None
    security: str | None = None
    broker: str | None = None
    priority: str | None = None
    contention: str | None = None
    flood: str | None = None
    fault: str | None = None
    fault_at_ms: int | None = None
    session: str | None = None
    fidelity: str | None = None
    assert_: tuple[str, ...] = ()
    broker_image: str | None = None
    base_image: str | None = None
    seed: int = -1
    yes: str | None = None
    own: Mapping[str, object] = field(default_factory=dict)
    """Values of variables that a family added, by name."""
    given: Mapping[str, str] = field(default_factory=dict)
    """What the user gave, as written."""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Settings:
        """Check every value; raise BadInputError on the first that is not allowed."""
        values: dict[str, object] = {"seed": random.randrange(2**32), "given": dict(given)}  # noqa: S311 - orders cells
        own: dict[str, object] = {}
        for name, value in given.items():
            if name not in VARIABLES:
                close = difflib.get_close_matches(name, VARIABLES, 1)
                meant = f"did you mean {close[0]}? " if close else ""
                raise BadInputError(name, value, f"no such variable; {meant}allowed are {', '.join(VARIABLES)}")
            read = VARIABLES[name].parse(name, value.strip())
            if name in _ADDED:
                own[name] = read
            else:
                values[field_of(name)] = read
        if "PRECISION" in given:
            repetitions = values.setdefault("repetitions", looks.USUAL_REPETITIONS)
            if repetitions < looks.FEWEST:  # type: ignore[operator]
                raise BadInputError("REPETITIONS", given["REPETITIONS"], f"PRECISION needs at least {looks.FEWEST}")
        return cls(**values, own=own)  # type: ignore[arg-type]


IMAGES = ("BROKER_IMAGE", "BASE_IMAGE")
"""What chooses images: Compose and `images` read it from the environment."""
OF_THE_MAKEFILE = ("PYTHON", "VENV")
"""What make's command line may also carry: the Makefile's own variables."""

# A variable without a field would be accepted and ignored.
assert {each.name for each in fields(Settings)} - {"own", "given"} == set(map(field_of, VARIABLES))

OF_EVERY_RUN = frozenset({
    "INTERVALS", "MESSAGES", "REPETITIONS", "PRECISION", "WARMUP", "TIMEOUT_MS", "DEADLINE_MS", "PLACEMENT", "ASSERT",
    "BASE_IMAGE", "SEED", "YES",
})  # fmt: skip
"""Variables that mean the same to every family."""
_ADDED: set[str] = set()


def add(name: str, variable: Variable) -> None:
    """Add a variable of a family's own, which calls this when it is loaded; its value is in `Settings.own`."""
    VARIABLES[name] = variable
    _ADDED.add(name)


def given(assignments: list[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Gather what the user set: the environment, then make's command line, then `NAME=VALUE` words."""
    values = {name: environment[name] for name in VARIABLES if environment.get(name)}
    values |= _overrides_of_make(environment)
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise BadInputError("argument", assignment, "variables are given as NAME=VALUE")
        values[name] = value
    return values


def _overrides_of_make(environment: Mapping[str, str]) -> dict[str, str]:
    """Command-line variables of the `make` that called us: it hands them on after ` -- ` in MAKEFLAGS."""
    _, _, words = environment.get("MAKEFLAGS", "").partition("-- ")
    pairs = [word.partition("=") for word in words.split() if "=" in word]
    return {name: environment.get(name, value) for name, _, value in pairs if name not in OF_THE_MAKEFILE}
