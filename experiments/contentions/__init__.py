# SPDX-License-Identifier: Apache-2.0
"""What disturbs the loop. `CONTENTION=kind`; one file a kind.

A contention is a service of the stand that either runs all the time (the stressor) or gets a job for each repetition
(the flooder, whose connections do not outlive a fresh broker). What it achieved is measured; where that falls short of
what was asked, the repetition is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from experiments.errors import BadInputError
from experiments.registry import Choice, Registry, read
from experiments.roles import Role

REGISTRY: Registry[type[Contention]] = Registry(__name__)


A_TENTH = 0.1
"""Of a repetition a contention may have been frozen or starved; beyond it, it did not disturb all of it."""


@dataclass(frozen=True)
class Second:
    """About a second of a repetition: how long it was, what the contention used in it, and what nobody did."""

    passed_s: float
    cpu_s: float
    idle_cpu_s: float
    """On the CPUs of the host side, which are the contention's."""


@dataclass(frozen=True)
class Achieved:
    """What the kernel and the contention itself say it did in one repetition."""

    cpu_s: float
    """CPU seconds the contention's service used."""
    free_cpu_s: float
    """CPU seconds that it used, or could have used because nobody did."""
    processes: int
    account: dict[str, Any]
    """What the flooder tells itself; empty for the others."""
    seconds: tuple[Second, ...] = ()


@dataclass(frozen=True)
class Contention(Choice):
    """A kind of contention, and how hard it disturbs; subclasses are small."""

    role: ClassVar[Role]
    """Its service."""
    through: ClassVar[str | None] = None
    """The service that it acts through, without which it cannot go on."""
    image: ClassVar[str | None] = None
    """A public image to run instead of our own."""
    once: ClassVar[bool] = False
    """Does it end by itself, so that each repetition must start it anew?"""

    def __init_subclass__(cls) -> None:
        if "kind" in cls.__dict__:
            REGISTRY.add(cls.kind, cls)

    @property
    def service(self) -> str:
        """The name of its service."""
        return self.role.name

    def check(self) -> None:
        """Most have but one level."""
        if self.argument:
            raise BadInputError("CONTENTION", str(self), f"{self.kind} takes no level; say CONTENTION={self.kind}")

    def arguments(self) -> list[str]:
        """The command line of its service."""
        raise NotImplementedError

    def compose(self) -> dict[str, Any]:
        """What its service gets in the Compose file: all but limits where that has none of the name."""
        return {}

    def host_program(self) -> list[str]:
        """The program to run it by in placement `host`."""
        raise NotImplementedError

    def job(self, run: str, capacity: float | None) -> dict[str, Any] | None:
        """The flooder's job for a repetition (`capacity`: msg/s this broker takes); None: it runs all the time."""
        del run, capacity
        return None

    def needs_capacity(self) -> bool:
        """Return whether `job` needs the broker's capacity measured first."""
        return False

    def shortfall(self, achieved: Achieved, job: dict[str, Any] | None) -> str | None:
        """Return what is missing for the repetition to count, or None."""
        raise NotImplementedError

    def record(self, achieved: Achieved, job: dict[str, Any] | None) -> dict[str, Any]:
        """Return `contention` in the bundle's repetition."""
        facts = {"kind": self.kind, "level": self.argument or None, "cpu_seconds": round(achieved.cpu_s, 3)}
        return facts | {"processes": achieved.processes, "asked": job} | achieved.account


def roles() -> list[Role]:
    """Return the role of every kind's service, each once; those that run all the time first."""
    known = dict.fromkeys(kind.role for kind in REGISTRY.all().values())
    return sorted(known, key=lambda role: role.takes_jobs)


def parse(text: str) -> Contention | None:
    """Read `KIND[:LEVEL]`; `none` gives None. Raises BadInputError."""
    kinds = REGISTRY.all()
    return None if text == "none" else read("CONTENTION", text, kinds, f"allowed are none, {', '.join(kinds)}")
