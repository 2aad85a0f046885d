# SPDX-License-Identifier: Apache-2.0
"""Builds of the stand's images, left out where they would change none.

Even a build that finds each step in the cache takes a second, and more than a minute on a slow machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import docker
import docker.errors
from docker.utils.build import exclude_paths

from experiments.errors import StandError

ROOT = Path(__file__).parents[1]
_COMPOSE = ("docker", "compose", "--file", "docker-compose.yml", "--file", "-", "--profile", "*")
_REMEMBERED = ROOT / "build" / "image-builds.json"
_LONGEST = 200


def bring_up_to_date(
    client: docker.DockerClient, environment: dict[str, str], bases: Iterable[str], more: dict[str, Any]
) -> None:
    """Build the images of the Compose file, unless they are here as built of the very same; raise StandError.

    `more`: Compose services, by name, which are only to be built as well.
    """
    document = json.dumps({"services": more})
    said = run([*_COMPOSE, "config", "--no-path-resolution", "--format", "json"], environment, document)
    builds = {each["image"]: each["build"] for each in json.loads(said)["services"].values() if "build" in each}
    inputs = digest(ROOT, builds, [_id(client, base) for base in bases])
    remembered, which = _remembered(), ",".join(sorted(builds))
    if remembered.get(which) == _state(client, inputs, builds):
        return
    if missing := [reference for reference in builds if _id(client, reference) is None]:
        print(f"testbed: building {', '.join(missing)} (once; a minute or two each)", flush=True)
    run([*_COMPOSE, "build", "--quiet"], environment, document)
    with contextlib.suppress(OSError):  # another user's checkout: built again next time
        _REMEMBERED.parent.mkdir(exist_ok=True)
        _REMEMBERED.write_text(json.dumps(remembered | {which: _state(client, inputs, builds)}, indent=1))


def digest(root: Path, builds: dict[str, Any], bases: Iterable[str | None]) -> str:
    """Return a digest of all that builds depend on: what they are told, what they stand on, each file they may copy.

    Of a file its name, its content and its mode count, as for BuildKit.
    """
    parts = [json.dumps([builds, *bases], sort_keys=True).encode()]
    for name in sorted(_context(root)):
        file = root / name
        if file.is_file():
            parts += [name.encode(), oct(file.stat().st_mode & 0o777).encode(), file.read_bytes()]
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def run(command: list[str], environment: dict[str, str], given: str = "") -> str:
    """Run a docker command in the checkout; returns what it prints. Raises StandError with its last words.

    `given`: what it reads from its standard input.
    """
    done = subprocess.run(
        command, cwd=ROOT, env=environment, input=given, capture_output=True, text=True, check=False,
        start_new_session=True,
    )  # fmt: skip
    if done.returncode:
        raise StandError(f"{' '.join(command[:2])} failed:\n{(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout


def why(said: str) -> str:
    """Return in a line why a build failed: the last words of the step that did, else of all that was said."""
    step = re.findall(r"^ > \[.*\n((?:.*\n)*?)------$", said, re.MULTILINE)
    lines = [line.strip() for line in (step[-1] if step else said).splitlines() if line.strip()]
    return re.sub(r"^[\d.]+ ", "", lines[-1])[:_LONGEST] if lines else "it failed"


def _context(root: Path) -> set[str]:
    lines = (root / ".dockerignore").read_text().splitlines()
    found: set[str] = exclude_paths(str(root), [line for line in lines if line])
    return found


def _state(client: docker.DockerClient, inputs: str, references: Iterable[str]) -> dict[str, Any]:
    return {"inputs": inputs, "images": {reference: _id(client, reference) for reference in references}}


def _id(client: docker.DockerClient, reference: str) -> str | None:
    try:
        return str(client.images.get(reference).id)
    except docker.errors.ImageNotFound:
        return None


def _remembered() -> dict[str, Any]:
    """What was built last, by the images that were built together."""
    try:
        found = json.loads(_REMEMBERED.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
