# SPDX-License-Identifier: Apache-2.0
"""From a scenario and its swaps to cells, and the order in which their repetitions run."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from experiments import families
from experiments.cells import Cell
from experiments.cpus import cpu_sets
from experiments.errors import BadInputError
from experiments.families import Family, Job
from experiments.variables import IMAGES, OF_EVERY_RUN, Settings
from schema import assertions
from schema.looks import SPENDING, Look, looks

OF_THE_WHOLE_RUN = frozenset({"REPETITIONS", "PRECISION", "ASSERT", "WARMUP", "DEADLINE_MS", "SEED", "YES", *IMAGES})
"""Variables that no arm of a study can have to itself."""


@dataclass(frozen=True)
class Plan:
    """Everything decided before the run starts."""

    name: str
    title: str
    family: Family[Any]
    cells: list[Any]
    """Of its family's own class, each a `Cell`."""
    settings: Settings
    run: str
    left_out: tuple[tuple[str, str], ...] = ()
    """(arm, reason) of the arms, or of their cells, that this host or their broker cannot do."""
    captured: bool = False
    """Split O by a capture; the latencies of such a run are not for comparison."""
    question: str | None = None
    """What the run is to answer; none where its title says all."""
    note: str | None = None
    """What a reader of the answer must know beside it."""
    headline: tuple[str, ...] | None = None
    """What answers it, in the order tested; none: what is usual for the conditions."""
    margin_percent: float = 5.0
    """Differences within it do not matter."""
    leaves_out: bool = False
    """Is what cannot be had here named and left out? Otherwise it refuses the run."""
    looked_at: tuple[str, ...] = ()
    """With PRECISION, what `analysis` is told at each look beside the bundle: a gate's baseline."""

    def order(self) -> list[tuple[int, int]]:
        """(cell, repetition) pairs: every cell once per round, in seeded random order.

        Rounds keep the cells interleaved, so that a host that drifts drifts under all of them alike.
        """
        shuffle = random.Random(self.settings.seed)  # noqa: S311 - an order to repeat, not a secret
        order = []
        for repetition in range(1, self.settings.repetitions + 1):
            cells = list(range(len(self.cells)))
            shuffle.shuffle(cells)
            order += [(cell, repetition) for cell in cells]
        return order

    def looks(self) -> tuple[Look, ...]:
        """When the run looks whether it has its answer; never, unless there is a PRECISION to reach."""
        return looks(self.settings.repetitions) if self.settings.precision else ()

    def _usual_headline(self) -> tuple[str, ...]:
        conditions = [cell.conditions for cell in self.cells]
        return self.family.usual_headline(
            contended=any(c.contention for c in conditions), broken=any(c.fault for c in conditions)
        )

    def scheduled_s(self, cell: Cell) -> float:
        """How long one repetition's schedule lasts, warm-up included."""
        return (cell.messages + self.settings.warmup) * cell.interval_ms / 1000

    def job(self, cell: Cell, repetition: int) -> Job:
        """What the driver is asked to do in one repetition of a cell."""
        return self.family.job(cell, self.run, repetition, self.settings.warmup)

    def without(self, impossible: Mapping[Cell, str]) -> Plan:
        """The same without these cells, by the reason that each is left out for."""
        cells = [cell for cell in self.cells if cell not in impossible]
        left_out = dict.fromkeys([*self.left_out, *((cell.arm, reason) for cell, reason in impossible.items())])
        return replace(self, cells=cells, left_out=tuple(left_out))

    def record(self) -> dict[str, Any]:
        """Return `plan` in bundle.json."""
        settings = self.settings
        return {
            "seed": settings.seed, "messages": settings.messages, "repetitions": settings.repetitions,
            "warmup": settings.warmup, "timeout_ms": settings.timeout_ms, "deadline_ms": settings.deadline_ms,
            "run": self.run, "captured": self.captured,
            "left_out": [{"arm": arm, "reason": reason} for arm, reason in self.left_out],
            "question": self.question or f"How late are answers: {self.title}?",
            **({"note": self.note} if self.note else {}),
            "headline": list(self.headline or self._usual_headline()), "margin_percent": self.margin_percent,
            "cells": [cell.record(index) for index, cell in enumerate(self.cells)], "order": self.order(),
            "sequential": self._sequential(), "assertions": list(settings.assert_),
        }  # fmt: skip

    def require_enough(self) -> None:
        """Raise BadInputError for an assertion that this run is too short to judge."""
        settings = self.settings
        for one in self._assertions():
            arms = dict.fromkeys(cell.arm for cell in self.cells)
            if one.arm is not None and one.arm not in arms:
                raise BadInputError(
                    "ASSERT", one.text, f"no such arm; arms are {', '.join(filter(None, arms)) or 'none'}"
                )
            chosen = [cell for cell in self.cells if one.arm in {None, cell.arm}]
            fewest = min(cell.messages for cell in chosen) * settings.repetitions
            if one.cycles > fewest:
                remedy = f"needs {one.cycles} cycles, the run has {fewest}; raise MESSAGES or REPETITIONS"
                raise BadInputError("ASSERT", one.text, remedy)
            if settings.repetitions < one.repetitions:
                raise BadInputError("ASSERT", one.text, f"an interval needs REPETITIONS={one.repetitions} at least")
            if one.metric == assertions.RECOVERY and not any(cell.conditions.fault for cell in self.cells):
                raise BadInputError("ASSERT", one.text, "nothing breaks, so nothing recovers; say FAULT=… as well")

    def _assertions(self) -> tuple[assertions.Assertion, ...]:
        """What the run must show, of metrics that its family has; raise BadInputError."""
        text = ",".join(self.settings.assert_)
        names = [metric.name for metric in self.family.metrics]
        try:
            return assertions.parse(text, (*names, f"{names[0]}_intended")) if text else ()
        except ValueError as error:
            raise BadInputError("ASSERT", text, str(error)) from None

    def _sequential(self) -> dict[str, Any] | None:
        planned = [asdict(look) for look in self.looks()]
        rule = {"precision_percent": self.settings.precision, "spending": SPENDING, "looks": planned}
        return rule if planned else None


def of_scenario(name: str, settings: Settings, run: str, placement: str = "docker") -> Plan:
    """Plan a scenario; raise BadInputError."""
    family = families.of_scenario(name)
    _require_known(family, settings.given)
    cells = family.cells(name, settings, placement, "")
    scenario = family.scenarios.all()[name]
    return Plan(
        f"scenario-{name}", scenario.title, family, cells, settings, run, headline=scenario.headline,
        leaves_out=family.compares(cells),
    )  # fmt: skip


def of_study(name: str, given: Mapping[str, str], run: str, placement: str = "docker") -> Plan:
    """Plan a study's arms side by side; `given` replaces what the arms leave open. Raises BadInputError."""
    family = families.of_study(name)
    _require_known(family, given)
    study = family.studies.all()[name]
    settings = Settings.parse(study.common | dict(given))
    cells: list[Cell] = []
    for arm, swaps in study.arms.items():
        for variable in sorted(set(swaps) & OF_THE_WHOLE_RUN):
            raise BadInputError(
                variable, swaps[variable], f"arm {arm} of study {name} swaps what holds for a whole run"
            )
        swept = {variable: value.format(pi_cpus=cpu_sets()[1]) for variable, value in swaps.items()}
        taken = set(swept) & set(given)
        if taken:
            variable = min(taken)
            raise BadInputError(variable, given[variable], f"it is what study {name} varies; leave it out")
        arm_settings = Settings.parse(study.common | dict(given) | swept | {"SEED": str(settings.seed)})
        for scenario in study.scenarios:
            cells += family.cells(scenario, arm_settings, arm_settings.placement or placement, arm)
    return Plan(
        f"study-{name}",
        study.question,
        family,
        cells,
        settings,
        run,
        question=study.question,
        headline=study.headline,
        note=study.note,
        leaves_out=study.leaves_out or family.compares(cells),
    )


def _require_known(family: Family[Any], given: Mapping[str, str]) -> None:
    """A variable that means nothing to a family would be a label without a fact; raise BadInputError."""
    for name in sorted(set(given) - OF_EVERY_RUN - family.variables):
        known = ", ".join(sorted(OF_EVERY_RUN | family.variables))
        raise BadInputError(name, given[name], f"it means nothing here; of {family.name} are {known}")
