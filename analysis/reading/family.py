# SPDX-License-Identifier: Apache-2.0
"""What a family of experiments sweeps over and measures, as its bundles name it: axes of cells, metrics of samples.

Nothing else in here knows a metric or an axis by name, but for what belongs to one family alone.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

Value = int | str
"""Where on an axis a cell is."""

UNDERSTOOD = "a cycle "
"""What a title says, and a label, which is about cycles anyway, leaves out."""


@dataclass(frozen=True)
class Axis:
    """What cells are swept over; `words` and `short` are templates, with `{}` for the value.

    Wording does not distinguish an axis or a metric from another bundle's.
    """

    name: str
    words: str = field(compare=False)
    short: str = field(compare=False)

    def title(self, value: Value) -> str:
        """Return the value for a title: `a cycle every 20 ms`."""
        return self.words.replace("{}", str(value))

    def phrase(self, value: Value) -> str:
        """Return the value for a label: `every 20 ms`."""
        return self.title(value).removeprefix(UNDERSTOOD)

    def text(self, value: Value) -> str:
        """Return the value in as few words as possible: `20 ms`."""
        return self.short.replace("{}", str(value))

    @cached_property
    def heading(self) -> str:
        """The heading of a column of values: what precedes them in `short`, else the axis' name without its unit."""
        before, _, after = self.short.partition("{}")
        return before.strip() or self.name.removesuffix(f"_{after.strip()}").replace("_", " ")

    def entry(self, value: Value) -> str:
        """Return the value for a column under `heading`: `20 ms`."""
        return f"{value}{self.short.partition('{}')[2]}"

    def slug(self, value: Value) -> str:
        """Return the value for a file's name: `20ms`."""
        before, _, after = (re.sub("[^a-z0-9]", "", part) for part in self.short.lower().partition("{}"))
        return f"{before}{value}{after}"


@dataclass(frozen=True)
class Metric:
    """A latency in whole µs, in `column` of the samples; where `difference` is (A, B), it is A − B, exactly.

    One that is `answered_only` says nothing of losses; of any other a lost cycle has an infinite one.
    """

    name: str
    column: str = field(compare=False)
    words: str = field(compare=False)
    difference: tuple[str, str] | None = None
    answered_only: bool = False

    @property
    def formula(self) -> str:
        """Its name, and the metrics that it is the difference of."""
        return f"{self.name} = {' − '.join(self.difference)}" if self.difference else self.name

    @property
    def title(self) -> str:
        """Its name and meaning, for a title."""
        return f"{self.formula}: {self.words}"


@dataclass(frozen=True)
class Family:
    """Axes in the order of tables, metrics the round trip (received − sent) first."""

    name: str
    axes: tuple[Axis, ...]
    metrics: tuple[Metric, ...]

    @property
    def round_trip(self) -> str:
        """The first metric's name."""
        return self.metrics[0].name

    @property
    def intended(self) -> str:
        """The name of the latency from when the request was due until its answer, derived from the round trip.

        A sender that falls behind cannot hide it (coordinated omission: Tene 2013, "How not to measure latency").
        """
        return f"{self.round_trip}_intended"

    @property
    def remainder(self) -> str:
        """The name of what remains of the round trip: the last metric that is a difference, else the round trip."""
        return next((metric.name for metric in reversed(self.metrics) if metric.difference), self.round_trip)

    @property
    def latencies(self) -> tuple[str, ...]:
        """The names of all metrics, and of `intended`."""
        return (*self.by_name, self.intended)

    @cached_property
    def by_name(self) -> Mapping[str, Metric]:
        """Every metric of the samples, by its name."""
        return {metric.name: metric for metric in self.metrics}

    @cached_property
    def key(self) -> tuple[str, ...]:
        """The columns that distinguish cells, in samples and in selections."""
        return ("scenario", "arm", *(axis.name for axis in self.axes))

    def unlike(self, other: "Family") -> str | None:
        """Return how two families differ in name, axes or metrics, whatever their wording; None where they do not."""
        for what, ours, theirs in (
            ("families", [self.name], [other.name]),
            ("axes", *([axis.name for axis in family.axes] for family in (self, other))),
            ("metrics", *([_meaning(metric) for metric in family.metrics] for family in (self, other))),
        ):
            if ours != theirs:
                return f"different {what}: {', '.join(ours) or 'none'} → {', '.join(theirs) or 'none'}"
        return None


def _meaning(metric: Metric) -> str:
    return f"{metric.formula} (of the answered)" if metric.answered_only else metric.formula
