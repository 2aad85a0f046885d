# SPDX-License-Identifier: Apache-2.0
"""What the observer reads of a service that nobody touched. What a knob names a file for reads as it must."""

from __future__ import annotations

from typing import Any, cast

from experiments import knobs
from experiments.knobs import Knob, Service
from experiments.observer.state import State, Thread

CONFIGURATION = "listener 1883\n"


def thread(tid: int = 7, **changes: Any) -> Thread:
    """An ordinary thread on CPU 0."""
    ordinary: Thread = {"tid": tid, "name": "mosquitto", "policy": "SCHED_OTHER", "priority": 0, "nice": 0, "cpus": [0]}
    return cast("Thread", ordinary | changes)


def _text(kind: type[Knob], cpus: tuple[int, ...]) -> str:
    return str(kind.untouched(Service("broker", cpus)))


def untouched(*, cpus: tuple[int, ...] = (0,), threads: int = 1, connections: int = 1, **changes: Any) -> State:
    """Its state, of so many threads and connections."""
    state: State = {
        "threads": [thread(7 + number, cpus=list(cpus)) for number in range(threads)],
        "weight": None, "quota": None, "rt_budget_us": None, "memory_limit_bytes": None,
        "configuration": CONFIGURATION,
        "kernel_files": {field: [_text(kind, cpus)] for field, kind in knobs.fields().items() if kind.kernel_file},
        "connections": [{"local": "a", "peer": f"b:{1 + port}", "nodelay": True} for port in range(connections)],
    }  # fmt: skip
    return cast("State", state | changes)
