# SPDX-License-Identifier: Apache-2.0
"""What every stand of the control loop has, whichever placement runs it."""

from __future__ import annotations

import json
from typing import ClassVar

from experiments import brokers
from experiments.brokers import Broker
from experiments.families.control.conditions import ControlConditions
from experiments.families.control.roles import LINK, PI, ROLES
from experiments.faults import Hands
from experiments.placements import Stand
from experiments.roles import OBSERVER, Role


class ControlStand(Stand):
    """A broker of the kind that conditions ask for, and the hands that faults of this family need."""

    roles: ClassVar[tuple[Role, ...]] = ROLES

    @property
    def now(self) -> ControlConditions:
        """The conditions that it was brought to."""
        assert isinstance(self.conditions, ControlConditions)
        return self.conditions

    @property
    def broker(self) -> Broker:
        """The broker of the present conditions."""
        return brokers.parse(self.now.broker)

    def hands(self) -> Hands:
        """Faults of this family reach all of it."""
        return self

    def board_counts(self) -> dict[str, int]:
        """Return what the Pi has counted at its board; it says so at most a second later. Empty before it said any."""
        said = [line for line in self.log(PI.name).splitlines() if line.startswith(b"{")]
        return dict(json.loads(said[-1])["board"]) if said else {}

    def link(self, do: str) -> bool:
        """Take the Pi's network interface down (`cut`), up (`mend`), or neither (`read`); returns whether it is up."""
        return bool(self.channel(LINK.name).ask(do=do)["up"])

    def disk(self, do: str) -> int:
        """Fill the broker's disk (`fill`), empty it of that (`empty`), or neither (`read`); returns the free bytes."""
        return int(self.channel(OBSERVER.name).ask(do="disk", what=do)["free_bytes"])
