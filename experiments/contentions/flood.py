# SPDX-License-Identifier: Apache-2.0
"""An MQTT flood at the same broker. `FLOOD=published`, a part of what this broker takes (`50%`), or `saturate`."""

from __future__ import annotations

import re
import sys
from typing import Any

from experiments.contentions import A_TENTH, Achieved, Contention
from experiments.errors import BadInputError
from experiments.roles import Role

CLIENTS = 200
"""Clients of the calibrated levels."""
KEPT = 0.8
"""A rate that the generator did not reach to this part was not the level asked for."""

# As published, but begun anew as long as the repetition lasts; the payload is mqtt-stresser's own.
# mqtt-stresser -num-clients 100 -num-messages 10 -rampup-delay 1s -rampup-size 10 -global-timeout 180s -timeout 20s
PUBLISHED = {
    "clients": 100, "messages": 10, "rampup_delay_s": 1.0, "rampup_size": 10, "timeout_s": 20.0,
    "global_timeout_s": 3600.0, "repeat": True, "payload_bytes": 18,
}  # fmt: skip
_CALIBRATED = {
    "clients": CLIENTS,
    "messages": None,
    "rampup_delay_s": 0.02,
    "rampup_size": 10,
    "global_timeout_s": 3600.0,
}


class Flood(Contention):
    """Open loop, so that a slowed broker is not spared."""

    kind = "flood"
    role = Role("flooder", takes_jobs=True)
    through = "broker"

    def check(self) -> None:
        """`published` is the default, and too weak to be seen on most hosts."""
        if self.argument in ("", "published", "saturate"):
            return
        percent = re.fullmatch(r"([0-9]{1,3})%", self.argument)
        if not percent or not 1 <= int(percent[1]) <= 100:
            raise BadInputError(
                "FLOOD", self.argument, "allowed are published, saturate, mqtt-stresser, or a percentage such as 50%"
            )

    def arguments(self) -> list[str]:
        """It waits for jobs."""
        return ["--jobs"]

    def host_program(self) -> list[str]:
        """Our own generator."""
        return [sys.executable, "-m", "clients.flood"]

    def needs_capacity(self) -> bool:
        """A percentage is of something."""
        return self.argument.endswith("%")

    def job(self, run: str, capacity: float | None) -> dict[str, Any] | None:
        """Return the job of this level."""
        if self.argument == "saturate":
            return {"run": run, **_CALIBRATED, "saturate": True}
        if not self.needs_capacity():
            return {"run": run, **PUBLISHED}
        assert capacity is not None
        return {"run": run, **_CALIBRATED, "rate": round(capacity * int(self.argument[:-1]) / 100, 1)}

    def shortfall(self, achieved: Achieved, job: dict[str, Any] | None) -> str | None:
        """Every client connected, the rate reached, and the flooder at work all the time, by its own account."""
        account, job = achieved.account, job or {}
        if account.get("failed_connects"):
            return f"{account['failed_connects']} clients of the flood could not connect"
        if account.get("disconnects"):
            return f"the broker dropped {account['disconnects']} clients of the flood"
        if account.get("stalled_s", 0.0) > A_TENTH * account["elapsed_s"]:
            return f"the flooder stood still for {account['stalled_s']:.1f} of {account['elapsed_s']:.1f} s"
        rate = job.get("rate")
        reached = account["sent"] / max(account["elapsed_s"], 1e-9)
        if rate and reached < KEPT * rate:
            return f"the flood sent {reached:.0f} of {rate:.0f} messages a second; ask for a lower FLOOD"
        return None
