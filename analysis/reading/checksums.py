# SPDX-License-Identifier: Apache-2.0
"""SHA256SUMS files, as `sha256sum -c` reads them."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from analysis.reading.bundle import BundleError
from analysis.reading.files import write_text
from schema.text import shown

LARGEST = 1 << 20
LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")


def write(folder: Path, name: str, files: Sequence[str]) -> None:
    """Write the checksums of `files`, relative to `folder`, into its file `name`."""
    lines = [f"{checksum(folder / file)}  {file}\n" for file in files]
    write_text(folder / name, "".join(lines))


def listed(path: Path) -> list[str]:
    """Return the files that the checksum file lists."""
    return [match[2] for line in _lines(path) if (match := LINE.fullmatch(line))]


def findings(path: Path) -> Iterator[str]:
    """Yield a finding for each listed file that is missing or changed, and for each line that is no checksum."""
    for line in _lines(path):
        match = LINE.fullmatch(line)
        if not match or PurePosixPath(match[2]).is_absolute() or ".." in PurePosixPath(match[2]).parts:
            yield f"{path.name}: not a checksum and a file: {shown(line)}"
        elif not (path.parent / match[2]).is_file():
            yield f"{match[2]}: missing, but listed in {path.name}"
        elif checksum(path.parent / match[2]) != match[1]:
            yield f"{match[2]}: changed since {path.name} was written"


def checksum(path: Path) -> str:
    """Return a file's SHA-256 in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _lines(path: Path) -> list[str]:
    if path.stat().st_size > LARGEST:
        raise BundleError(f"{path}: larger than {LARGEST >> 20} MiB; take an undamaged copy of the bundle")
    return path.read_text(encoding="utf-8", errors="replace").removesuffix("\n").split("\n")
