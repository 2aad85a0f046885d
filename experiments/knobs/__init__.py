# SPDX-License-Identifier: Apache-2.0
"""What is set on a service, and how the kernel is asked whether it took. `PRIORITY=service=kind:value`, a file a kind.

Several kinds may set the same *field* of the kernel's state (a thread has one scheduling policy); a field that no
knob sets must read as if nobody had touched it, so that an unlabelled condition is caught as well.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from experiments.errors import BadInputError
from experiments.observer.state import State
from experiments.registry import Choice, Registry, read

REGISTRY: Registry[type[Knob]] = Registry(__name__)


@dataclass(frozen=True)
class Service:
    """What a knob must know of the service it is set on."""

    name: str
    cpus: tuple[int, ...]
    """The CPUs it has when no knob says otherwise."""
    connects: bool = False
    """Is it an end of the measured connections?"""


@dataclass(frozen=True)
class Knob(Choice):
    """A kind of knob with its value; subclasses are small."""

    field: ClassVar[str]
    """What of the kernel's state it sets; also its name in proofs."""
    containers_only: ClassVar[bool] = False
    of_kernel: ClassVar[bool] = True
    """Is it read back by the observer? Otherwise by who takes part, as its own proof says."""
    variable: ClassVar[str] = "PRIORITY"
    """The variable it is asked for by."""
    kernel_file: ClassVar[str | None] = None
    """Where the kernel tells of a field that the observer does not know by itself.

    A file of each process, `/proc/{pid}/timerslack_ns`, or of its control group by controller, `{memory}/memory.high`.
    """

    def __init_subclass__(cls) -> None:
        if "kind" in cls.__dict__:
            REGISTRY.add(cls.kind, cls)

    def compose(self) -> dict[str, Any]:
        """What the service's entry in the Compose file gets before its container is created."""
        return {}

    def settings(self) -> list[tuple[str, Any]]:
        """What the observer applies to the running process: (setting, value); see `Observer.apply`."""
        return []

    def expected(self) -> Any:
        """What `observed` must give once the knob has taken."""
        raise NotImplementedError

    def agrees(self, observed: Any) -> bool:
        """Return whether `observed` is what was asked for."""
        return bool(observed == self.expected())

    @classmethod
    def observed(cls, state: State) -> Any:
        """Return the field as the kernel holds it, in the form of `expected`.

        Of a `kernel_file` its text, or every variant there is where processes differ; None where there is none.
        """
        texts = sorted(set(state["kernel_files"][cls.field]))
        return (texts[0] if len(texts) == 1 else texts) if texts else None

    @classmethod
    def untouched(cls, service: Service) -> Any:
        """What `observed` must give where no knob sets this field; NotImplemented: anything goes."""
        raise NotImplementedError

    def bad(self, allowed: str) -> BadInputError:
        """Make the error for a wrong argument."""
        return BadInputError(self.variable, str(self), allowed)

    def whole(self, low: int, high: int) -> int:
        """Read the argument as a whole number within bounds; raises BadInputError."""
        if not re.fullmatch(r"-?[0-9]{1,20}", self.argument) or not low <= int(self.argument) <= high:
            raise self.bad(f"{self.kind} takes a whole number from {low} to {high}, e.g. {self.kind}:{high}")
        return int(self.argument)


Knobs = tuple[tuple[str, tuple[Knob, ...]], ...]
"""Knobs by service, hashable; a service without any is left out."""


def parse(text: str, services: Collection[str]) -> dict[str, tuple[Knob, ...]]:
    """Read `service=knob[+knob…],service=…`, of these services; raise BadInputError."""
    by_service: dict[str, tuple[Knob, ...]] = {}
    # cpus:0,1 has a comma of its own: a new service begins only where a name and an equals sign follow.
    for part in re.split(r",(?=[a-z-]+=)", text):
        service, equals, words = part.partition("=")
        if not equals or service not in services or service in by_service:
            first, second = [*services, *services][:2]
            example = f"say e.g. {first}=fifo:90,{second}=none, or none, or published"
            raise BadInputError("PRIORITY", text, f"{example}; services are {', '.join(services)}, each once")
        by_service[service] = tuple(one(word) for word in words.split("+"))
        for knob in by_service[service]:
            if knob.variable != "PRIORITY":
                raise BadInputError("PRIORITY", part, f"that is {knob.variable}={knob}, and for all services alike")
        fields = [knob.field for knob in by_service[service]]
        if len(set(fields)) != len(fields):
            raise BadInputError("PRIORITY", part, "these set the same thing twice; keep one of them")
    return by_service


def one(text: str) -> Knob:
    """Read one knob, `kind[:value]`; raise BadInputError."""
    kinds = REGISTRY.all()
    names = ", ".join(name for name in kinds if kinds[name].variable == "PRIORITY")
    return read("PRIORITY", text, kinds, f"allowed are {names} (e.g. fifo:90, nice:-10, cpus:0, quota:0.5)")


def fields() -> dict[str, type[Knob]]:
    """Return one kind of knob for each field of the kernel's state, to read it by."""
    return {kind.field: kind for kind in REGISTRY.all().values()}


def kernel_files() -> dict[str, str]:
    """Return the files that the observer is to read for fields it does not know, by field; see `Knob.kernel_file`."""
    return {field: kind.kernel_file for field, kind in fields().items() if kind.kernel_file}


def frozen(knobs: dict[str, tuple[Knob, ...]]) -> Knobs:
    """Make the hashable form."""
    return tuple(sorted(knobs.items()))


def record(knobs: Iterable[Knob]) -> str:
    """Write knobs as a user would."""
    return "+".join(map(str, knobs)) or "none"
