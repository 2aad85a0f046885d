# SPDX-License-Identifier: Apache-2.0
"""Writes into a bundle's folder: whole or not at all, and never through a link that somebody put there."""

import os
import shutil
from pathlib import Path

from analysis.reading.bundle import BundleError
from schema import reading


def require_plain(folder: Path) -> None:
    """Raise `BundleError` where `folder` holds anything but files and folders."""
    try:
        reading.require_plain(folder)
    except reading.UnreadableError as error:
        raise BundleError(str(error)) from None


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path`; a link there is replaced, not followed. Raise OSError with the name of `path`."""
    scratch = path.with_name(f".{path.name}.part")
    for place in (path, scratch):
        if place.is_dir() and not place.is_symlink():
            raise BundleError(f"{place}: a folder where a file belongs; remove it")
    scratch.unlink(missing_ok=True)
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        scratch.replace(path)
    except OSError as error:  # e.g. a full disk
        scratch.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None


def fresh_folder(path: Path) -> Path:
    """Return a new empty folder beside `path`, for `replace_folder` to put in its place."""
    scratch = path.with_name(f".{path.name}.part")
    _remove(scratch)
    scratch.mkdir()
    return scratch


def replace_folder(scratch: Path, path: Path) -> None:
    """Replace the folder `path` by `scratch`."""
    _remove(path)
    scratch.replace(path)


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)
