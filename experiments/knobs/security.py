# SPDX-License-Identifier: Apache-2.0
"""`SECURITY=none|password|tls`: who may connect to the broker, and whether the way there is private.

The clients enforce it (a connection whose certificate does not verify never opens) and say what their open connection
is protected by; of the broker, the control loop says whether it lets a stranger in.
"""

from __future__ import annotations

from typing import Any

from experiments.knobs import Knob, Service

FOLDER = "/run/testbed/credentials"
"""Where containers find what was issued for this run; see `experiments.credentials`."""


class Password(Knob):
    """A user name and a password made for this run; they travel readable."""

    kind = "password"
    field = "security"
    variable = "SECURITY"
    of_kernel = False

    def check(self) -> None:
        """It has no argument."""
        if self.argument:
            raise self.bad(f"{self.kind} takes no value")

    def compose(self) -> dict[str, Any]:
        """The volume with the run's credentials, of which each user may read its own part."""
        return {"volumes": [f"credentials:{FOLDER}:ro"]}

    def expected(self) -> Any:
        """As asked for."""
        return self.kind

    @classmethod
    def untouched(cls, service: Service) -> Any:
        """Anybody may connect; services that disturb connect as they must."""
        return "none" if service.connects else NotImplemented


class Tls(Password):
    """The password within TLS 1.3, the broker's certificate verified by both clients."""

    kind = "tls"


def of_client(side: dict[str, Any] | None) -> str | None:
    """Return `none`, `password` or `tls` as a client's open connection shows it; None where it said nothing."""
    if side is None:
        return None
    return "tls" if side["tls"] else "password" if side["user"] else "none"
