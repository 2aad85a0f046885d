# SPDX-License-Identifier: Apache-2.0
"""Runs the plan of a bundle again: the same cells, seed and order, on the same images where they are still here.

The bundle is a stranger's: each value goes through the checks of the command line, and nothing in it can name an image,
a device, a mount or a command that the command line could not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import docker.errors

from experiments import families, variables
from experiments.cells import Cell
from experiments.errors import BadInputError
from experiments.images import LABEL
from experiments.plan import Plan
from experiments.variables import Settings
from schema import bundle as schema
from schema import reading
from schema.reading import UnreadableError

REMEDY = "replay a bundle that a run of this testbed left behind"


@dataclass(frozen=True)
class Recorded:
    """A bundle to run again."""

    folder: Path
    facts: schema.Bundle

    @classmethod
    def read(cls, folder: Path) -> Recorded:
        """Read bundle.json; raise BadInputError where it is none, or has no plan to replay."""
        try:
            facts = reading.checked(folder / "bundle.json", reading.document(folder))
        except UnreadableError as error:
            raise BadInputError("BUNDLE", str(folder), str(error).removeprefix(f"{folder}/")) from None
        if not facts.plan.cells:
            raise BadInputError("BUNDLE", str(folder), f"its plan has no cells; {REMEDY}")
        return cls(folder, facts)

    def plan(self, run: str, named: Mapping[str, str] = MappingProxyType({})) -> Plan:
        """Rebuild the plan under a run id of its own; raise BadInputError for what the command line would not take.

        `named` is what only this machine's user may give, see `NAMED`.
        """
        recorded = self.facts.plan
        values = {name: getattr(recorded, name.lower()) for name in _OF_THE_PLAN}
        if recorded.sequential:
            values["PRECISION"] = f"{recorded.sequential.precision_percent:.9g}%"
        settings = Settings.parse({name: str(value) for name, value in values.items() if value is not None})
        cells = [self._cell(cell, named) for cell in recorded.cells]
        family = families.named(self.facts.family)
        title = f"replay of the run of {self.facts.started_utc}"
        left_out = tuple((arm.arm, arm.reason) for arm in recorded.left_out)
        return Plan(
            self.facts.name, title, family, cells, settings, run, left_out, recorded.captured,
            question=recorded.question, note=recorded.note,
            headline=tuple(recorded.headline) if recorded.headline else None, margin_percent=recorded.margin_percent,
        )  # fmt: skip

    def _cell(self, cell: schema.Cell, named: Mapping[str, str]) -> Cell:
        try:
            rebuilt: Cell = families.named(self.facts.family).recorded(cell, self.facts, named)
        except BadInputError as error:
            raise BadInputError("BUNDLE", str(self.folder), f"cell {cell.cell} of its plan: {error}") from None
        return rebuilt

    def ran(self) -> int:
        """How many repetitions of each cell there were: as planned, or up to the look that ended the run."""
        stopped = [look.repetitions for look in self.facts.looks or () if look.stop]
        return stopped[-1] if stopped else self.facts.plan.repetitions

    def image_ids(self) -> dict[str, str]:
        """Return the image of each service that has one."""
        return {service: image.id for service, image in self.facts.images.items() if image.id}


_OF_THE_PLAN = ("SEED", "MESSAGES", "REPETITIONS", "WARMUP", "TIMEOUT_MS", "DEADLINE_MS")


NAMED = ("DEVICE", "FAULT")
"""What reaches beyond the stand, so that no bundle can ask for it alone: a serial port, and a fault of the host itself.

DEVICE stands in for every port that the bundle names; FAULT must repeat what it asks for.
"""


def named(given: Mapping[str, str]) -> dict[str, str]:
    """Take what a user may name for a replay; raise BadInputError for any other variable."""
    for name in sorted(set(given) - {*NAMED, *variables.IMAGES, "BUNDLE", "YES"}):
        raise BadInputError(name, given[name], "a replay runs the plan as it was recorded; leave it out")
    return {name: given[name] for name in NAMED if name in given}


def images_here(engine: Any, wanted: Mapping[str, str], repositories: Mapping[str, frozenset[str]]) -> dict[str, str]:
    """Return those images, by service and id, that are on this machine and are what that service runs here anyway.

    An id alone could name any image of the machine. One is ours by the repository it is tagged with or, since a later
    build takes the tag away, by the label that our build gave it. `repositories` has no observer: it is always ours of
    today, for it may do more than the others.
    """
    here = {}
    for service in sorted(set(wanted) & set(repositories)):
        try:
            image = engine.images.get(wanted[service])
        except docker.errors.DockerException:
            continue
        names = {tag.rpartition(":")[0] for tag in image.attrs.get("RepoTags") or ()}
        names |= {digest.partition("@")[0] for digest in image.attrs.get("RepoDigests") or ()}
        names.add(((image.attrs.get("Config") or {}).get("Labels") or {}).get(LABEL, ""))
        if image.id == wanted[service] and names & repositories[service]:
            here[service] = wanted[service]
    return here
