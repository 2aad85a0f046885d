# SPDX-License-Identifier: Apache-2.0
"""Reads what a stranger wrote: plain files of a sensible size in one folder, and a bundle.json of the schema's form.

Whatever is wrong is one `UnreadableError` of one line: where, which value, and what is allowed.
"""

from __future__ import annotations

import json
import math
import os
import stat
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from schema import bounds
from schema.bundle import VERSION, Bundle
from schema.text import shown
from schema.upgrades import upgraded

FILES = 1_000_000
PARTS = ".parts"
"""Where a run that was killed left each repetition in files of its own."""

REMEDY = "take an undamaged copy of the bundle"


class UnreadableError(Exception):
    """A bundle cannot be read; the message is one line."""


def require_plain(folder: Path) -> None:
    """Raise where anything in `folder` is not a file or a folder: a link leads out, a pipe waits for ever.

    The folder itself may be a link, as `results/latest` is: the user named it.
    """
    if not folder.is_dir():
        raise UnreadableError(f"{folder}: no such folder; give the folder of a run, for example results/latest")
    waiting, seen = [folder], 0
    try:
        while waiting:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    seen += 1
                    _require_plain(Path(entry.path), entry.stat(follow_symlinks=False).st_mode)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
            if seen > FILES:
                raise UnreadableError(f"{folder}: more than {FILES} files; a bundle has fewer")
    except OSError as error:
        raise UnreadableError(f"{error.filename or folder}: {error.strerror or error}") from None


def _require_plain(path: Path, mode: int) -> None:
    if stat.S_ISLNK(mode):
        raise UnreadableError(f"{path}: a symbolic link; a bundle holds files only, and none is followed out of it")
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise UnreadableError(f"{path}: neither a file nor a folder; a bundle holds nothing else")


def read_json(path: Path) -> Any:
    """Return the value in a JSON file; raise `UnreadableError` where `_require_sane` objects or it is no JSON."""
    try:
        if path.stat().st_size > bounds.DOCUMENT_BYTES:
            raise UnreadableError(f"{path}: larger than {bounds.DOCUMENT_BYTES >> 20} MiB; {REMEDY}")
        value = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except RecursionError:
        raise UnreadableError(f"{path}: not readable as JSON (nested too deeply); {REMEDY}") from None
    except (OSError, ValueError) as error:
        raise UnreadableError(f"{path}: not readable as JSON ({_first_line(error)}); {REMEDY}") from None
    _require_sane(path, value)
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


def _require_sane(path: Path, value: Any) -> None:
    """Raise `UnreadableError` on numbers beyond 64 bits or not finite, lone surrogates, and deep nesting."""
    waiting = [(value, 1)]
    while waiting:
        one, depth = waiting.pop()
        if depth > bounds.DEPTH:
            raise UnreadableError(f"{path}: nested deeper than {bounds.DEPTH} levels; {REMEDY}")
        if isinstance(one, dict):
            waiting += ((inner, depth + 1) for pair in one.items() for inner in pair)
        elif isinstance(one, list):
            waiting += ((inner, depth + 1) for inner in one)
        elif isinstance(one, str):
            if not one.isascii() and any("\ud800" <= c <= "\udfff" for c in one):
                raise UnreadableError(f"{path}: {shown(one)} holds half of a character; {REMEDY}")
        elif isinstance(one, float) and not math.isfinite(one):
            raise UnreadableError(f"{path}: holds a number beyond all bounds; {REMEDY}")
        elif isinstance(one, int) and abs(one) >= 1 << 63:
            raise UnreadableError(f"{path}: {shown(one)} does not fit 64 bits; {REMEDY}")


def document(folder: Path) -> dict[str, Any]:
    """Return bundle.json of a folder that is all plain files, upgraded to the present schema version."""
    require_plain(folder)
    path = folder / "bundle.json"
    if not path.exists():
        raise UnreadableError(f"{folder}: holds no bundle.json; give the folder of a run, e.g. results/latest")
    value = read_json(path)
    if not isinstance(value, dict):
        raise UnreadableError(f"{path}: holds {shown(value)}, not an object; {REMEDY}")
    version = value.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise UnreadableError(f"{path}: schema_version is {shown(version)}, not a whole number; {REMEDY}")
    if version > VERSION:
        raise UnreadableError(
            f"{path}: schema_version {shown(version)} is newer than {VERSION}, the last one known here; "
            "update this checkout"
        )
    if (parts := sorted((folder / PARTS).glob("repetition-*.json"))) and value.get("ended_utc") is None:
        value["repetitions"] = [read_json(part) for part in parts]
    try:
        return upgraded(value, VERSION)
    except LookupError:
        raise UnreadableError(f"{path}: schema_version {version} is unknown; known are up to {VERSION}") from None


def checked(path: Path, value: dict[str, Any]) -> Bundle:
    """Return `value`, of the present schema version, as typed records; raise `UnreadableError` that names `path`."""
    try:
        bundle = Bundle.model_validate(value)
    except ValidationError as error:
        first, *others = error.errors(include_url=False)
        more = f" (and {len(others)} more)" if others else ""
        raise UnreadableError(f"{path}: {_explain(first)}{more}; see docs/bundle.md for the format") from None
    for objection in bundle.objections():
        raise UnreadableError(f"{path}: {objection}; see docs/bundle.md for the format")
    return bundle


def _explain(error: Any) -> str:
    """Return an error in words: `plan.cells[0].qos is 7; allowed is a whole number from 0 to 2`."""
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"])
    where = shown(where.removeprefix("."))[1:-1]
    if error["type"] == "missing":
        return f"{where} is missing"
    allowed = _ALLOWED.get(error["type"], error["msg"])
    return f"{where} is {shown(error['input'])}; allowed is {allowed}"


_ALLOWED = {
    "model_type": "an object",
    "dict_type": "an object",
    "list_type": "a list",
    "too_long": "a shorter list",
    "too_short": "a list of two, (cell, repetition)",
}


def _first_line(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return shown((str(error) or type(error).__name__).splitlines()[0])[1:-1]
