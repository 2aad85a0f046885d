# SPDX-License-Identifier: Apache-2.0
"""What differs between two selections: what forbids a comparison, and what it is about."""

from collections.abc import Sequence
from typing import Any

from analysis.reading.bundle import Bundle, BundleError, Cell
from analysis.reading.selection import Selection

Pairs = Sequence[tuple[Cell, Cell]]

HOST = ("hostname_hash", "cpu_model", "cpus", "memory_bytes")
SURROUNDINGS = ("kernel", "os", "cgroup")


def require_alike(first: Bundle, *others: Bundle) -> None:
    """Raise `BundleError` where one is about something else than the first: nothing compares what they measured."""
    for other in others:
        if unlike := first.family.unlike(other.family):
            raise BundleError(f"{first.folder} and {other.folder} are not comparable: {unlike}")


def obstacles(a: Selection, b: Selection, pairs: Pairs) -> list[str]:
    """Why the difference could be something else than the conditions: host, placement, board, repetitions' length."""
    found = [_differs(f"host {name}", _host(a.bundle, name), _host(b.bundle, name)) for name in HOST]
    found += [_differs("placement", a.bundle.document["placement"], b.bundle.document["placement"])]
    found += [_differs("board", own.board, other.board) for own, other in pairs]
    # A capture at the broker slows what it looks at.
    found += [_differs("capture", *("yes" if own.bundle.plan.get("captured") else "no" for own in (a, b)))]
    found += [_differs("messages a repetition", own.messages, other.messages) for own, other in pairs]
    return _distinct(found)


def changes(a: Selection, b: Selection, pairs: Pairs) -> list[str]:
    """What else differs: the conditions compared, and the software underneath."""
    found = []
    for own, other in pairs:
        found += [
            _differs(name, of_a, of_b) for name, of_a, of_b in zip(a.bundle.family.key, own.key, other.key, strict=True)
        ]
        found += [_differs("broker", own.broker, other.broker)] if own.broker and other.broker else []
        found += [_differs("contention", own.contention or "none", other.contention or "none")]
        found += [_differs("session", own.session, other.session)]
        found += [_differs("deadline in ms", own.deadline_ms, other.deadline_ms)]
        found += [_differs("timeout in ms", own.timeout_ms, other.timeout_ms)]
        found += [_differs("fault", own.fault or "none", other.fault or "none")]
        found += [_differs(knob, _setting(own, knob), _setting(other, knob)) for knob in _knobs(own, other)]
    found += [_differs(name, _host(a.bundle, name), _host(b.bundle, name)) for name in SURROUNDINGS]
    found += [_differs(f"image {name}", *ids) for name, ids in _images(a.bundle, b.bundle).items()]
    found += [_differs("git revision", _revision(a.bundle), _revision(b.bundle))]
    return _distinct(found)


def _differs(name: str, of_a: object, of_b: object) -> str | None:
    return None if of_a == of_b else f"{name}: {of_a or 'none'} → {of_b or 'none'}"


def _distinct(lines: Sequence[str | None]) -> list[str]:
    return list(dict.fromkeys(line for line in lines if line))


def _host(bundle: Bundle, name: str) -> object:
    return bundle.document["host"].get(name)


def _knobs(own: Cell, other: Cell) -> list[str]:
    """`service knob` for every knob that either cell sets."""
    return sorted(
        {f"{service} {kind}" for cell in (own, other) for service, knobs in cell.knobs.items() for kind in knobs}
    )


def _setting(cell: Cell, knob: str) -> str | None:
    service, kind = knob.split(" ", 1)
    return cell.knobs.get(service, {}).get(kind)


def _images(a: Bundle, b: Bundle) -> dict[str, tuple[str | None, str | None]]:
    """By service, the start of each side's image id."""
    of_a, of_b = (_image_ids(bundle.document.get("images") or {}) for bundle in (a, b))
    return {service: (of_a.get(service), of_b.get(service)) for service in sorted({*of_a, *of_b})}


def _image_ids(images: dict[str, Any]) -> dict[str, str]:
    """By service, its name and the start of its id, which alone tells two builds apart."""
    return {
        service: " ".join(filter(None, (image.get("base") or image.get("reference"), str(image.get("id") or "")[:19])))
        for service, image in images.items()
    }


def _revision(bundle: Bundle) -> str | None:
    git = bundle.document.get("git")
    return str(git.get("revision"))[:10] if git else None
