# SPDX-License-Identifier: Apache-2.0
"""File systems of images, taken out of their engine once, to run what is in them as plain processes.

Each is a folder `build/brokers/KIND` and, beside it, what its image says of it, `KIND.json`. `rooted.py` runs them.
"""

from __future__ import annotations

import functools
import io
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from experiments.errors import StandError

FOLDER = Path(__file__).parents[1] / "build" / "brokers"
_ROOTED = Path(__file__).with_name("placements") / "rooted.py"
_MOUNTED_UPON = ("proc", "dev", "tmp", "state")


@dataclass(frozen=True)
class Root:
    """What an image says of its program."""

    kind: str
    image: str
    """Its id."""
    inputs: str
    """A digest of the files that it was built from."""
    version: str
    entrypoint: list[str]
    environment: dict[str, str]

    @classmethod
    def of(cls, kind: str) -> Root | None:
        """Return what was exported of a kind; None where nothing was, or only a part."""
        try:
            return cls(**json.loads((FOLDER / f"{kind}.json").read_text()))
        except (OSError, ValueError, TypeError):
            return None

    @property
    def folder(self) -> Path:
        """The file system."""
        return FOLDER / self.kind

    def write(self, archive: IO[bytes]) -> None:
        """Put an image's file system in the place of the one before; raise OSError, or StandError as `unpack`."""
        record, fresh = self.folder.with_suffix(".json"), self.folder.with_suffix(".fresh")
        for stale in (fresh, self.folder):
            record.unlink(missing_ok=True)  # a part must not pass for the whole
            if stale.exists():
                shutil.rmtree(stale)
        fresh.mkdir(parents=True)
        unpack(archive, fresh)
        fresh.rename(self.folder)
        record.write_text(json.dumps(asdict(self), indent=1))

    def command(self, file: Path, at: str) -> list[str]:
        """Return what becomes the image's program on a configuration: `file` here, `at` as its process sees it."""
        environment = [f"{name}={value}" for name, value in self.environment.items()]
        return [sys.executable, "-S", str(_ROOTED), str(self.folder), str(file), *environment, *self.entrypoint, at]

    def lacking(self) -> str | None:
        """Return why nothing can be run in it on this machine; None: it can."""
        return _lacking(self.folder)


@functools.cache
def _lacking(folder: Path) -> str | None:
    words = [sys.executable, "-S", str(_ROOTED), str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stderr.strip() or "it ended" if done.returncode else None


def unpack(archive: IO[bytes], folder: Path) -> None:
    """Unpack the tar archive of a file system into an empty folder; raise StandError for what points out of it.

    Files, folders and links, which are never followed here; no devices, no owners, no set-user-id. What mounts need is
    there in the end.
    """
    folder = folder.resolve()
    try:
        with tarfile.open(fileobj=archive, mode="r|") as members:
            for member in members:
                _put(members, member, folder)
    except tarfile.TarError as error:
        raise StandError(f"the engine's archive of the image cannot be read: {error}; try again") from None
    for name in ("", *_MOUNTED_UPON):
        _make_folder(_within(folder, name))


def _put(members: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    target = _within(folder, member.name)
    if member.isdir():
        _make_folder(target)
    elif member.issym():
        target.symlink_to(member.linkname)  # as seen from within; nothing is ever written through it
    elif member.islnk():
        target.hardlink_to(_within(folder, member.linkname))
    elif member.isreg():
        content = members.extractfile(member)
        assert content is not None
        with target.open("xb") as file:
            shutil.copyfileobj(content, file)
        target.chmod(member.mode & 0o755 | 0o600)


def _make_folder(target: Path) -> None:
    if target.is_symlink():
        raise StandError(f"the image has {target.name!r} twice, as a link and as a folder; build it anew")
    target.mkdir(exist_ok=True)
    target.chmod(0o755)


def _within(folder: Path, name: str) -> Path:
    """Return where a member belongs; raise StandError unless that is within the folder, by no link."""
    inner = PurePosixPath(name)
    target = folder / inner
    if inner.is_absolute() or ".." in inner.parts or (target != folder and target.parent.resolve() != target.parent):
        raise StandError(f"the image has a file {name!r}, which would be outside its file system; build it anew")
    return target


class Chunks(io.RawIOBase):
    """Read what comes in pieces as a file."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces: Iterator[bytes] = iter(pieces)
        self._rest = b""

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Give what there is, up to the buffer's length; 0 at the end."""
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = piece
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count
