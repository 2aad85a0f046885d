# SPDX-License-Identifier: Apache-2.0
"""Families: what is measured, and on which stand. One folder a family.

Plan, runner, placements, knobs, contentions, faults, noise, proofs, bundle and statistics know none of them by name:
what they need of one is here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from experiments.cells import Cell
from experiments.errors import BadInputError
from experiments.proof import Proof
from experiments.registry import Registry
from experiments.roles import Role

if TYPE_CHECKING:
    from experiments.differences import Fact
    from experiments.placements import Stand
    from experiments.variables import Settings
    from schema import bundle as schema

REGISTRY: Registry[Family[Any]] = Registry(__name__)

Columns = Mapping[str, type]
"""Columns of a table by name: of str, int, float or bool."""
CellT = TypeVar("CellT", bound=Cell)


@dataclass(frozen=True)
class Axis:
    """What cells are swept over: an attribute of each cell, a column of samples."""

    name: str
    words: str
    """Names a value in titles, e.g. `a cycle every {} ms`."""
    short: str
    """The same in tables and labels, e.g. `{} ms`."""
    kind: type = int


@dataclass(frozen=True)
class Metric:
    """A latency in whole µs. A family's first is the round trip: received − sent, by the driver's own clock."""

    name: str
    column: str
    words: str
    difference: tuple[str, str] | None = None
    """It is the first of these metrics less the second."""
    answered_only: bool = False
    """Only answered cycles have it; otherwise a lost cycle ranks last."""

    def record(self) -> dict[str, Any]:
        """Return its entry of `metrics` in bundle.json; what is usual is left out."""
        record: dict[str, Any] = {"name": self.name, "column": self.column, "words": self.words}
        record |= {"difference": list(self.difference)} if self.difference else {}
        return record | ({"answered_only": True} if self.answered_only else {})


@dataclass(frozen=True)
class Scenario:
    """A named set of conditions; a family adds its own fields.

    `headline` is what answers its question, in the order tested: statistics of metrics as `analysis` names them. None:
    what is usual for its conditions.
    """

    title: str
    headline: tuple[str, ...] | None = None


Swaps = dict[str, str]


@dataclass(frozen=True)
class Study:
    """A question, the scenarios it is put to, and the arms by label; `common` holds for all arms.

    An arm is the variables it swaps; `{pi_cpus}` stands for the CPUs of the Pi's side, which no contention uses. The
    others are compared with the first arm. `headline` is what answers the question, in the order tested.
    """

    question: str
    scenarios: tuple[str, ...]
    arms: dict[str, Swaps]
    headline: tuple[str, ...]
    common: Swaps = field(default_factory=dict)
    leaves_out: bool = False
    """Are arms that this host cannot do named and left out? Otherwise they refuse the study."""
    note: str | None = None
    """What a reader of its answer must know beside it."""


class Job(Protocol):
    """What the driver is asked to do in one repetition: a dataclass, sent to it as one JSON object."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def timeout_ms(self) -> int:
        """An answer after this is late."""

    def scheduled_s(self) -> float:
        """How long the schedule lasts, warm-up included."""


@dataclass(frozen=True)
class Cycle:
    """What the driver told of one cycle; times in ns of its CLOCK_MONOTONIC, None where it did not come to that."""

    sequence: int
    intended_ns: int | None
    sent_ns: int | None = None
    received_ns: int | None = None
    failure: str | None = None
    """Why it is lost; None where it was answered."""
    duplicate: bool = False
    """Is it one more answer to a cycle that was answered before?"""
    measured_us: Mapping[str, int | None] = field(default_factory=dict)
    """Of an answered cycle, the metrics that are neither the round trip nor a difference, by name."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """The family's further columns."""


@dataclass(frozen=True)
class Outcome:
    """What became of a repetition, as the services of the family tell it."""

    proofs: list[Proof]
    facts: dict[str, Any]
    """What joins the repetition's entry in bundle.json."""
    resources: list[dict[str, Any]] = field(default_factory=list)
    """Rows of resources that only a service of the family could tell."""
    broken: str | None = None
    """Why nothing more could be answered; None where nothing was in the way."""


class Family(Generic[CellT]):
    """One family of experiments. What is asked of it never depends on the placement, but for `stands`."""

    name: ClassVar[str]
    axes: ClassVar[tuple[Axis, ...]]
    metrics: ClassVar[tuple[Metric, ...]]
    roles: ClassVar[tuple[Role, ...]]
    driver: ClassVar[str]
    """The role that runs the cycles of a repetition: it takes a `Job`, and tells `ready`, `samples` and `done`."""
    columns: ClassVar[Columns] = {}
    """Further columns of its samples, for `Cycle.facts`."""
    tables: ClassVar[Mapping[str, Columns]] = {}
    """Further tables of its bundles."""
    variables: ClassVar[frozenset[str]]
    """The variables that mean something to it; those of every run are no part of it."""
    scenarios: ClassVar[Registry[Any]]
    studies: ClassVar[Registry[Study]]
    series: ClassVar[tuple[str, ...]] = ()
    """The scenarios that `make scenarios` runs one after the other, and shows on one page."""
    stands: ClassVar[Mapping[str, Callable[[Mapping[str, str]], Stand]]]
    """By placement, what makes its stand; it is given the images that a replay pins, by service."""

    def cells(self, scenario: str, settings: Settings, placement: str, arm: str) -> list[CellT]:
        """Cross a scenario's axes, with the swaps in place; raise BadInputError."""
        raise NotImplementedError

    def in_series(self, scenario: str, settings: Settings) -> Settings:
        """Take out of what was given for a whole series what would be a mistake for one of its scenarios."""
        del scenario
        return settings

    def describe(self, scenario: Any) -> dict[str, str]:
        """Return what a list of scenarios says of one, by column."""
        return {"what": str(scenario.title)}

    def compares(self, cells: Sequence[CellT]) -> bool:
        """Say whether what cannot be had is to be left out, because others like it are compared beside it."""
        del cells
        return False

    def recorded(self, cell: schema.Cell, facts: schema.Bundle, named: Mapping[str, str]) -> CellT:
        """Rebuild a cell of a bundle through the parsers of the command line; raise BadInputError.

        `named` is what only this machine's user may give, see `experiments.replay`.
        """
        raise NotImplementedError

    def swappable(self) -> Mapping[str, Callable[[schema.Cell], object]]:
        """By variable, what a gate may put in the place of a baseline's, and how a recorded cell tells its value."""
        return {}

    def swapped(self, cell: CellT, swaps: Mapping[str, str]) -> CellT:
        """Put these values in the place of a cell's; raise BadInputError."""
        del swaps
        return cell

    def differences(self, recorded: schema.Bundle, cells: Sequence[CellT]) -> Iterator[Fact]:
        """Tell what of its own is otherwise here than in the bundle whose cells these are."""
        del recorded, cells
        return iter(())

    def usual_headline(self, *, contended: bool, broken: bool) -> tuple[str, ...]:
        """The headline of conditions that have none of their own."""
        raise NotImplementedError

    def job(self, cell: CellT, run: str, repetition: int, warmup: int) -> Job:
        """What the driver is asked to do in one repetition of a cell."""
        raise NotImplementedError

    def cycle(self, row: list[Any]) -> Cycle:
        """Read what the driver told of a cycle; a row begins with sequence, intended_ns, sent_ns and received_ns."""
        raise NotImplementedError

    def outcome(self, cell: CellT, done: dict[str, Any], stand: Stand, began_ns: int) -> Outcome:
        """Read what the driver said at the end, and what the services kept meanwhile."""
        raise NotImplementedError

    def captured(self, rows: list[dict[str, Any]], messages: list[list[Any]], repetition: int) -> dict[str, Any]:
        """Return rows of further tables, by table, from a repetition's samples and what its capture saw pass."""
        raise NotImplementedError

    def record(self) -> dict[str, Any]:
        """Return its part of bundle.json: what `analysis` needs to read the samples."""
        axes = [{"name": axis.name, "words": axis.words, "short": axis.short} for axis in self.axes]
        metrics = [metric.record() for metric in self.metrics]
        return {"family": self.name, "axes": axes, "metrics": metrics}


def named(name: str) -> Family[Any]:
    """Return the family of that name; raise BadInputError."""
    return _having("family", name, REGISTRY.all())


def of_scenario(name: str) -> Family[Any]:
    """Return the family that has a scenario of that name; raise BadInputError."""
    return _having("scenario", name, {scenario: f for f in REGISTRY.all().values() for scenario in f.scenarios.all()})


def of_study(name: str) -> Family[Any]:
    """Return the family that has a study of that name; raise BadInputError."""
    return _having(
        "study", name, {study: family for family in REGISTRY.all().values() for study in family.studies.all()}
    )


def _having(what: str, name: str, known: Mapping[str, Family[Any]]) -> Family[Any]:
    if name not in known:
        raise BadInputError(what, name, f"allowed are {', '.join(known)}")
    return known[name]
