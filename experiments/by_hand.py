# SPDX-License-Identifier: Apache-2.0
"""`.env`: what `docker compose` by hand needs to know of this engine, so that it does as a run would."""

from __future__ import annotations

from pathlib import Path

import docker

from experiments import engine
from experiments.cpus import cpu_sets
from experiments.images import Images
from experiments.placements.docker import ask_observer, may_raise_rtprio, passing_project

_RT_RUNTIME_US = 400_000
"""For each of broker and client, of the 900 ms a second that compose/priority.yml says to give the group above them."""

_HEAD = """\
# Written by `make images`, for `docker compose` by hand on this engine; write it anew after a change of engine.
# BASE_IMAGE and BROKER_IMAGE: what images are built on (from-debian: Mosquitto from Debian packages).
# HOST_CPUS and PI_CPUS: the CPUs of "the host", and of the Pi and its board.
# RTPRIO_LIMIT and RT_RUNTIME_US: for compose/priority.yml, see there.
"""


def write(folder: Path, client: docker.DockerClient, built: Images) -> Path:
    """Write `.env` beside the Compose file; returns it. Raises OSError."""
    with passing_project(client) as project:
        machine = ask_observer(built.environment, project, do="examine")["facts"]
        limit = 90 if may_raise_rtprio(client, project) else 0
    budgets = machine["rt_group_sched"] and machine["cgroup"] != "v2"
    host_cpus, pi_cpus = cpu_sets(machine["cpu_list"] if engine.is_far() else None)
    values = {
        "BASE_IMAGE": built.base.argument, "BROKER_IMAGE": built.broker.argument,
        "CA_BUNDLE": built.environment["CA_BUNDLE"], "HOST_CPUS": host_cpus, "PI_CPUS": pi_cpus,
        "RTPRIO_LIMIT": str(limit),
        "RT_RUNTIME_US": str(_RT_RUNTIME_US if budgets else 0),
    }  # fmt: skip
    file = folder / ".env"
    scratch = folder / ".env.new"
    scratch.write_text(_HEAD + "".join(f"{name}={value}\n" for name, value in values.items()))
    scratch.replace(file)
    return file
