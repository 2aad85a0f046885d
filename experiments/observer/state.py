# SPDX-License-Identifier: Apache-2.0
"""What the observer reads back of a service: its reply to `prove`, by service; JSON on the way, typed at both ends."""

from __future__ import annotations

from typing import NotRequired, TypedDict, final


class Thread(TypedDict):
    """One thread's scheduling, as sched_getscheduler(2) and its kin tell."""

    tid: int
    name: str
    policy: str
    priority: int
    nice: int
    cpus: list[int]


class Connection(TypedDict):
    """A connected TCP socket."""

    local: str
    peer: str
    nodelay: bool


@final
class State(TypedDict):
    """A service as the kernel holds it."""

    threads: list[Thread]
    """Of all its processes."""
    weight: tuple[str, int] | None
    """`shares` or `weight`, and its value; None: in no group that has one."""
    quota: float | None
    """CPUs; None: no limit."""
    rt_budget_us: int | None
    """A second's; None where the kernel keeps none."""
    memory_limit_bytes: int | None
    kernel_files: dict[str, list[str]]
    """By field, what the file that a knob named says of each process."""
    configuration: str | None
    """The file that its command line names; None where there is none."""
    connections: NotRequired[list[Connection]]
    connections_error: NotRequired[str]
    """Why they could not be read."""


@final
class Unreadable(TypedDict):
    """In the place of a state, where nothing could be read."""

    error: str
