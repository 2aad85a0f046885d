# SPDX-License-Identifier: Apache-2.0
"""Roles: what each service of a stand is, said once. A family has its own, and so has what disturbs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Role:
    """What the stand must know of a service, whichever placement runs it."""

    name: str
    side: str = "host"
    """Whose CPUs it runs on: `host` (broker, client, what disturbs them) or `pi`; see `experiments.cpus`."""
    takes_jobs: bool = False
    """Does it take requests on its standard input, and reply on its standard output, as JSON lines?"""
    lasting: bool = True
    """Does it run as long as the stand does? Otherwise it is started for a repetition, and ends with it."""
    detailed: bool = False
    """Is it part of what is measured, so that its threads are sampled one by one? Of others the sum is enough."""
    settable: bool = True
    """May PRIORITY name it?"""
    retransmits: bool = False
    """Are the TCP retransmissions of its network counted? Once for all who talk to it."""
    connects: bool = False
    """Is it an end of the measured connections, whose TCP option and protection are set, and proved?"""


OBSERVER = Role("observer", side="pi", takes_jobs=True, settable=False)
"""Part of every stand: it reads back what only the kernel knows of the others."""


def named(roles: Iterable[Role], name: str) -> Role:
    """Return the role of a service; one that has none, e.g. a passing helper, is an ordinary one on the host's side."""
    return next((role for role in roles if role.name == name), Role(name))


def settable(roles: Iterable[Role]) -> tuple[str, ...]:
    """Return the names of the services that PRIORITY may name, each once."""
    return tuple(dict.fromkeys(role.name for role in roles if role.settable))


def connected(roles: Iterable[Role]) -> tuple[str, ...]:
    """Return the names of the ends of the measured connections."""
    return tuple(role.name for role in roles if role.connects)
