# SPDX-License-Identifier: Apache-2.0
"""`make gate`: the plan of a baseline on the present stand, with what is under test in its place; `analysis` judges."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from experiments import families, host, replay, variables
from experiments.errors import BadInputError, RefusedError
from experiments.plan import Plan
from experiments.replay import Recorded
from experiments.variables import Settings

ROOT = Path(__file__).parents[1]

LENGTH = ("REPETITIONS", "PRECISION")
OWN = ("BASELINE", "MARGIN", "FORCE")
THROUGH = (*variables.IMAGES, "YES")
"""Read where images are chosen and questions asked."""
MACHINE = ("hostname_hash", "cpu_model", "cpus", "memory_bytes")
"""What makes another machine, whose levels cannot be compared."""


@dataclass(frozen=True)
class Gate:
    """What was asked for: the baseline, what is swapped in, the margin in % (none: the baseline's own).

    `repetitions` are those of the baseline, or how many the user wants; with `precision`, at most so many.
    """

    baseline: Recorded
    swaps: dict[str, str]
    named: dict[str, str]
    repetitions: int
    precision: float | None
    broker_image: str | None
    margin_percent: float | None
    force: bool

    def plan(self, run: str) -> Plan:
        """The baseline's plan with the swaps; raises BadInputError."""
        planned = self.baseline.plan(run, self.named)
        settings = replace(
            planned.settings, precision=self.precision, repetitions=self.repetitions, broker_image=self.broker_image
        )
        cells = [planned.family.swapped(cell, self.swaps) for cell in planned.cells]
        return replace(
            planned, name=f"gate-{planned.name}", title="gate against a baseline", cells=cells, settings=settings,
            looked_at=("--baseline", str(self.baseline.folder.resolve()), *self._options()),
        )  # fmt: skip

    def require_machine(self) -> None:
        """Raise RefusedError where the baseline was measured on another machine, unless forced."""
        was, now = self.baseline.facts.host, host.facts()
        different = [name for name in MACHINE if getattr(was, name) is not None and getattr(was, name) != now.get(name)]
        if different and not self.force:
            changes = ", ".join(f"{name} {getattr(was, name)} → {now.get(name)}" for name in different)
            raise RefusedError(
                f"cannot tell: the baseline was measured on another machine ({changes}), whose levels are its own; "
                "measure a baseline here, or say FORCE=yes"
            )

    def judge(self, candidate: Path) -> int:
        """Let `analysis` say what the two bundles say; returns its exit code."""
        arguments = ["gate", str(self.baseline.folder.resolve()), str(candidate.resolve()), *self._options()]
        return subprocess.run([sys.executable, "-m", "analysis", *arguments], cwd=ROOT, check=False).returncode

    def _options(self) -> list[str]:
        options = [] if self.margin_percent is None else ["--margin-percent", f"{self.margin_percent:g}"]
        return [*options, *(["--force"] if self.force else [])]


def read(baseline: Path, given: Mapping[str, str]) -> Gate:
    """What `make gate` was told; raises BadInputError before anything starts."""
    recorded = Recorded.read(baseline)
    # Everything else in the place of the baseline's would measure another thing.
    swappable = families.named(recorded.facts.family).swappable()
    allowed = (*swappable, *LENGTH, *replay.NAMED, *OWN, *THROUGH)
    for name in sorted(set(given) - set(allowed)):
        raise BadInputError(name, given[name], f"a gate runs the baseline's plan; it takes only {', '.join(allowed)}")
    swaps = {name: given[name] for name in swappable if name in given}
    for name, value in swaps.items():
        if len({str(swappable[name](cell)) for cell in recorded.facts.plan.cells}) > 1:
            raise BadInputError(name, value, "it is what the baseline's arms differ in; leave it out")
    settings = Settings.parse({name: given[name] for name in (*LENGTH, "BROKER_IMAGE") if name in given})
    return Gate(
        baseline=recorded,
        swaps=swaps,
        named={name: given[name] for name in replay.NAMED if name in given},
        repetitions=settings.repetitions if set(LENGTH) & set(given) else recorded.ran(),
        precision=settings.precision,
        broker_image=settings.broker_image,
        margin_percent=variables.percent(100)("MARGIN", given["MARGIN"]) if "MARGIN" in given else None,  # type: ignore[arg-type]
        force=variables.word("yes", "no")("FORCE", given.get("FORCE", "no")) == "yes",
    )
