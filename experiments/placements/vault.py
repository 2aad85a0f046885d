# SPDX-License-Identifier: Apache-2.0
"""Hands a run's credentials to its containers: in a volume of the run, wherever the engine is, and nowhere else.

Not in variables, which `docker inspect` and the bundle's compose.yml would show; not in a mount of ours, which a far
engine does not have; not in an image, which outlives the run.
"""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import docker

from experiments.knobs.security import FOLDER

VOLUME = "credentials"
CONFIGURATION = "configuration"
"""The part without a secret, for every eye: the observer proves what the broker runs on, and may not see the rest."""
_OWNERS = {"broker": 1883, "client": 65534, CONFIGURATION: 0}
"""The users of the containers that may read each part, as in docker-compose.yml."""


def fill(client: docker.DockerClient, project: str, labels: dict[str, str], image: str, issued: Path) -> None:
    """Create the volume of a Compose project and put the files of an issued folder into it, each for its owner only.

    A container of `image` carries them in and is removed unstarted. Raises docker.errors.APIError.
    """
    mine = labels | {"com.docker.compose.project": project, "com.docker.compose.volume": VOLUME}
    client.volumes.create(f"{project}_{VOLUME}", labels=mine)
    carrier = client.containers.create(
        image, entrypoint="true", network_mode="none", labels=labels | {"com.docker.compose.project": project},
        volumes={f"{project}_{VOLUME}": {"bind": FOLDER, "mode": "rw"}},
    )  # fmt: skip
    try:
        carrier.put_archive(FOLDER, archive(issued))
    finally:
        carrier.remove(force=True, v=True)


def archive(issued: Path) -> bytes:
    """The folder as a tar file in which each part belongs to its reader alone."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for part, owner in _OWNERS.items():
            for path in (issued / part, *sorted((issued / part).iterdir())):
                member = archive.gettarinfo(path, path.relative_to(issued).as_posix())
                member.uid = member.gid = owner
                member.uname = member.gname = ""
                member.mode = (0o500 if path.is_dir() else 0o400) if part != CONFIGURATION else 0o555
                with path.open("rb") if path.is_file() else io.BytesIO() as content:
                    archive.addfile(member, content if path.is_file() else None)
    return buffer.getvalue()
