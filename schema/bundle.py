# SPDX-License-Identifier: Apache-2.0
"""bundle.json, schema version 2: every field that a program of ours takes from one; docs/bundle.md explains them.

Fields that are not here are tolerated and not looked at; one that is here is what it says, or the bundle is refused.
One that has a default may be absent, as in bundles made before there was such a field.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from schema import bounds
from schema.bounds import Range
from schema.text import shown

VERSION = 2


def _check(allowed: str, holds: Any) -> BeforeValidator:
    """Return a validator whose error says what is allowed."""

    def check(value: Any) -> Any:
        if not holds(value):
            raise PydanticCustomError("allowed", "{allowed}", {"allowed": allowed})
        return value

    return BeforeValidator(check)


def _whole(of: Range) -> BeforeValidator:
    low, high = of
    return _check(f"a whole number from {low} to {high}", lambda v: type(v) is int and low <= v <= high)


def _one_of(words: Sequence[str]) -> BeforeValidator:
    return _check(f"one of {', '.join(words)}", lambda v: isinstance(v, str) and v in words)


def _like(pattern: str, allowed: str) -> BeforeValidator:
    return _check(allowed, lambda v: isinstance(v, str) and re.fullmatch(pattern, v) is not None)


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= bounds.LINE_LENGTH and value.isprintable()


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= bounds.TEXT_LENGTH


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(bounds.NAME, value) is not None


def _is_margin(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1000


def _is_part(value: Any, most: float = 1) -> bool:
    return type(value) in (int, float) and 0 < value <= most


def _has_one_blank(value: Any) -> bool:
    return _is_line(value) and value.count("{}") == 1 and not set(value.replace("{}", "")) & set("{}")


_ONE_BLANK = "a line with {} once, where the value goes, and no other brace"

Name = Annotated[str, _like(bounds.NAME, "a name of at most 80 letters, digits and . _ + : @ - or blanks")]
Line = Annotated[str, _check(f"a line of at most {bounds.LINE_LENGTH} printable characters", _is_line)]
Words = Annotated[str, _check(f"text of at most {bounds.TEXT_LENGTH} characters", _is_text)]
Count = Annotated[int, _whole(bounds.COUNT)]
Nanoseconds = Annotated[int, _whole(bounds.NANOSECONDS)]
Number = Annotated[
    float, _check("a number", lambda v: type(v) in (int, float) and math.isfinite(v) and abs(v) <= bounds.COUNT[1])
]
Flag = Annotated[bool, _check("true or false", lambda v: isinstance(v, bool))]
Qos = Annotated[int, _whole(bounds.QOS)]
Column = Annotated[str, _like(bounds.COLUMN, "a name of at most 40 small letters, digits and _")]
Placement = Annotated[str, _one_of(bounds.PLACEMENTS)]
Placements = Annotated[str, _one_of((*bounds.PLACEMENTS, "docker+host", "host+docker"))]
ImageId = Annotated[str, _like(bounds.IMAGE_ID, "sha256: and 64 hexadecimal digits")]


class _Record(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


class Axis(_Record):
    """An entry of `axes`: what cells of the run's family are swept over; a field of each cell, a column of samples."""

    name: Column
    words: Annotated[str, _check(_ONE_BLANK, _has_one_blank)]
    """Names a value in titles, e.g. `a cycle every {} ms`."""
    short: Annotated[str, _check(_ONE_BLANK, _has_one_blank)]
    """The same in tables and labels, e.g. `{} ms`."""


class Metric(_Record):
    """An entry of `metrics`: a latency that samples have in whole µs. The first is the round trip, received − sent."""

    name: Annotated[str, _like(bounds.SYMBOL, "a letter and at most 19 letters, digits and _")]
    column: Column
    words: Line
    """What it is: `from request to answer, at the control loop`."""
    difference: Annotated[list[Line], Field(min_length=2, max_length=2)] | None = None
    """It is the first of these metrics less the second, exactly."""
    answered_only: Flag = False
    """Only answered cycles have it, so that a loss says nothing of it; otherwise a lost cycle ranks last."""


class Cell(BaseModel):
    """An entry of `plan.cells`; of the fields that a family adds, only its axes are checked."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow")

    cell: Count
    scenario: Name
    arm: Line
    interval_ms: Annotated[int, _whole(bounds.INTERVAL_MS)] | None = None
    qos: Qos | None = None
    qos_answer: Qos | None = None
    placement: Placement | None = None
    """None: the run's."""
    broker: Name | None = None
    """None: made before it was recorded, by the placement's usual one."""
    messages: Annotated[int, _whole(bounds.MESSAGES)] | None = None
    timeout_ms: Annotated[int, _whole(bounds.TIMEOUT_MS)] | None = None
    """None of either: the plan's."""
    board: Name | None = None
    device: Line | None = None
    contention: Line | None
    knobs: dict[Name, dict[Name, Line]]
    session: Annotated[str, _one_of(bounds.SESSIONS)] = "clean"
    fault: Line | None = None
    fault_at_ms: Annotated[int, _whole(bounds.FAULT_AT_MS)] | None = None

    def on(self, axis: str) -> Any:
        """Return its value on an axis: the field of that name, in the schema or not; None without one."""
        return (self.model_extra or {}).get(axis, self.__dict__.get(axis))


class LeftOut(_Record):
    """An arm of a study that the host could not do."""

    arm: Line
    reason: Line


class PlannedLook(_Record):
    """An entry of `plan.sequential.looks`: after how many repetitions, and its part of the chance of error."""

    repetitions: Annotated[int, _whole(bounds.REPETITIONS)]
    share: Annotated[float, _check("a number above 0 and up to 1", _is_part)]


class Sequential(_Record):
    """`plan.sequential`: when a run with PRECISION was to look whether it has its answer."""

    precision_percent: Annotated[float, _check("a number above 0 and up to 100", lambda v: _is_part(v, 100))]
    looks: Annotated[list[PlannedLook], Field(min_length=1, max_length=100)]


class Look(_Record):
    """An entry of `looks`: a look that was taken."""

    repetitions: Annotated[int, _whole(bounds.REPETITIONS)]
    stop: Flag
    reason: Words


class Plan(_Record):
    """`plan`: what was to be run."""

    seed: Annotated[int, _whole(bounds.SEED)]
    messages: Annotated[int, _whole(bounds.MESSAGES)]
    repetitions: Annotated[int, _whole(bounds.REPETITIONS)]
    warmup: Annotated[int, _whole(bounds.WARMUP)]
    timeout_ms: Annotated[int, _whole(bounds.TIMEOUT_MS)]
    deadline_ms: Annotated[int, _whole(bounds.DEADLINE_MS)] | None = None
    captured: Flag = False
    left_out: Annotated[list[LeftOut], Field(max_length=bounds.CELLS[1])] = []
    note: Line | None = None
    question: Line | None = None
    headline: Annotated[list[Line], Field(max_length=100)] | None = None
    margin_percent: Annotated[float, _check("a number from 0 to 1000", _is_margin)] = 5.0
    sequential: Sequential | None = None
    assertions: Annotated[list[Line], Field(max_length=100)] = []
    cells: Annotated[list[Cell], Field(max_length=bounds.CELLS[1])]
    order: Annotated[
        list[Annotated[list[Count], Field(min_length=2, max_length=2)]], Field(max_length=bounds.PLANNED[1])
    ] = []


class Counts(_Record):
    """`counts` of a repetition, without warm-up."""

    offered: Count
    ok: Count
    late: Count
    lost: Count
    duplicate: Count


class Proof(_Record):
    """A knob read back; `observed` may be anything."""

    service: Name
    knob: Line
    requested: Line | None = None
    holds: Flag
    observed: Any = None


class Lateness(_Record):
    """How late requests left, µs."""

    p99: Number | None = None


class Noise(_Record):
    """What disturbed a repetition; null where the host cannot measure it."""

    steal_percent: Number | None = None
    foreign_cpu_percent: Number | None = None
    lateness_us: Lateness | None = None


class Evidence(_Record):
    """What was read back of a fault."""

    what: Line
    read: Line
    holds: Flag
    t_ns: Nanoseconds


class Fault(_Record):
    """`fault` of a repetition; times on the client's CLOCK_MONOTONIC, null where it did not get that far."""

    kind: Line
    requested_at_ns: Nanoseconds | None = None
    injected_ns: Nanoseconds | None = None
    in_force_ns: Nanoseconds | None = None
    ended_ns: Nanoseconds | None = None
    evidence: Annotated[list[Evidence], Field(max_length=100)] = []
    error: Words | None = None


class Capture(_Record):
    """The capture of `make path-N`."""

    clock_moved_us: Annotated[int, _whole((-bounds.COUNT[1], bounds.COUNT[1]))] | None = None


class Repetition(_Record):
    """An entry of `repetitions`."""

    order: Count
    cell: Count
    repetition: Count
    validity: Annotated[str, _one_of(bounds.VALIDITIES)]
    reasons: list[Words]
    counted: Flag
    rerun_of: Count | None = None
    counts: Counts
    compose: Line | None = None
    noise: Noise | None = None
    capture: Capture | None = None
    proofs: list[Proof] | None = None
    fault: Fault | None = None


class Host(_Record):
    """`host`: what the machine was."""

    hostname_hash: Line | None = None
    kernel: Line | None = None
    machine: Line | None = None
    os: Line | None = None
    cpus: Count | None = None
    cpu_model: Line | None = None
    memory_bytes: Count | None = None
    cgroup: Line | None = None
    rt_group_sched: Flag | None = None
    python: Line | None = None


class Engine(_Record):
    """`engine`: absent in placement host."""

    version: Line | None = None
    compose: Line | None = None


class Image(_Record):
    """An entry of `images`."""

    reference: Line | None = None
    id: ImageId | None = None
    origin: Line | None = None
    version: Line | None = None


class Git(_Record):
    """`git`: the checkout that ran."""

    revision: Annotated[str, _like(r"[0-9a-f]{7,64}", "a revision of 7 to 64 hexadecimal digits")]
    dirty: Flag | None = None


class Quantiles(_Record):
    """Of the TCP echo, µs."""

    p50: Number


class Floor(_Record):
    """`floor`: the instrument's own."""

    tcp_echo_t_us: Quantiles


class Cpus(_Record):
    """`cpus`: the CPUs of the host's side, and of the Pi's."""

    host: Line | None = None
    pi: Line | None = None


class Bundle(_Record):
    """All of bundle.json."""

    schema_version: Annotated[int, _whole((VERSION, VERSION))]
    name: Name
    status: Annotated[str, _one_of(bounds.STATUSES)]
    reason: Words | None = None
    command: Annotated[list[Line], Field(max_length=1000)]
    started_utc: Line
    ended_utc: Line | None = None
    family: Name
    axes: Annotated[list[Axis], Field(max_length=10)]
    metrics: Annotated[list[Metric], Field(min_length=1, max_length=20)]
    git: Git | None
    placement: Placements
    notice: Words | None
    plan: Plan
    host: Host
    engine: Engine | None
    images: dict[Name, Image]
    cpus: Cpus | None = None
    floor: Floor | None = None
    looks: Annotated[list[Look], Field(max_length=100)] | None = None
    repetitions: Annotated[list[Repetition], Field(max_length=bounds.PLANNED[1])]

    def objections(self) -> Iterator[str]:
        """Yield what is inconsistent between fields, with its place: a name taken twice, a cell without an axis."""
        yield from self._taken_twice()
        for index, metric in enumerate(self.metrics):
            others = {other.name for other in self.metrics[:index]}
            for name in set(metric.difference or ()) - others:
                yield f"metrics[{index}].difference: {name!r} is no metric before it"
        yield from self._misplaced()

    def _taken_twice(self) -> Iterator[str]:
        columns = [*(axis.name for axis in self.axes), *(metric.column for metric in self.metrics)]
        metrics = [*(metric.name for metric in self.metrics), f"{self.metrics[0].name}_intended"]
        for place, names in (
            ("axes", [*bounds.SAMPLE_COLUMNS, *bounds.DERIVED_COLUMNS, *columns]),
            ("metrics", [*bounds.DERIVED_METRICS, *metrics]),
        ):
            for name in sorted({name for name in names if names.count(name) > 1}):
                yield f"{place}: {name!r} is taken twice"

    def _misplaced(self) -> Iterator[str]:
        """Yield cells without a value on an axis, or with one that a column of samples cannot have."""
        for axis in self.axes:
            if len({type(cell.on(axis.name)) for cell in self.plan.cells} & {int, str}) > 1:
                yield f"plan.cells: {axis.name} is a number in one, and a name in another"
        for index, cell in enumerate(self.plan.cells):
            for axis in self.axes:
                value = cell.on(axis.name)
                if value is None:
                    yield f"plan.cells[{index}].{axis.name} is missing"
                elif not (type(value) is int and value in range(bounds.COUNT[1])) and not _is_name(value):
                    yield f"plan.cells[{index}].{axis.name} is {shown(value)}; allowed are whole numbers and names"
