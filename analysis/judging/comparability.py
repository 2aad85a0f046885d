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
    """Raise `BundleError` where a bundle's family, axes or metrics differ from those of the first."""
    for other in others:
        if unlike := first.family.unlike(other.family):
            raise BundleError(f"{first.folder} and {other.folder} are not comparable: {unlike}")


def obstacles(a: Selection, b: Selection, pairs: Pairs) -> list[str]:
    """Return what makes A and B incomparable: other host, placement, board, capture, or length of repetitions."""
    differences = [_differs(f"host {name}", _host(a.bundle, name), _host(b.bundle, name)) for name in HOST]
    differences += [_differs("placement", a.bundle.document["placement"], b.bundle.document["placement"])]
    differences += [_differs("board", cell_a.board, cell_b.board) for cell_a, cell_b in pairs]
    # A capture at the broker slows what it looks at.
    differences += [_differs("capture", *("yes" if side.bundle.plan.get("captured") else "no" for side in (a, b)))]
    differences += [_differs("messages a repetition", cell_a.messages, cell_b.messages) for cell_a, cell_b in pairs]
    return _distinct(differences)


def changes(a: Selection, b: Selection, pairs: Pairs) -> list[str]:
    """Return what else differs: the conditions compared, and the software underneath."""
    differences = []
    for cell_a, cell_b in pairs:
        differences += [
            _differs(name, of_a, of_b)
            for name, of_a, of_b in zip(a.bundle.family.key, cell_a.key, cell_b.key, strict=True)
        ]
        differences += [_differs("broker", cell_a.broker, cell_b.broker)] if cell_a.broker and cell_b.broker else []
        differences += [_differs("contention", cell_a.contention or "none", cell_b.contention or "none")]
        differences += [_differs("session", cell_a.session, cell_b.session)]
        differences += [_differs("deadline in ms", cell_a.deadline_ms, cell_b.deadline_ms)]
        differences += [_differs("timeout in ms", cell_a.timeout_ms, cell_b.timeout_ms)]
        differences += [_differs("fault", cell_a.fault or "none", cell_b.fault or "none")]
        differences += [
            _differs(knob, _setting(cell_a, knob), _setting(cell_b, knob)) for knob in _knobs(cell_a, cell_b)
        ]
    differences += [_differs(name, _host(a.bundle, name), _host(b.bundle, name)) for name in SURROUNDINGS]
    differences += [_differs(f"image {name}", *ids) for name, ids in _images(a.bundle, b.bundle).items()]
    differences += [_differs("git revision", _revision(a.bundle), _revision(b.bundle))]
    return _distinct(differences)


def _differs(name: str, of_a: object, of_b: object) -> str | None:
    return None if of_a == of_b else f"{name}: {of_a or 'none'} → {of_b or 'none'}"


def _distinct(lines: Sequence[str | None]) -> list[str]:
    return list(dict.fromkeys(line for line in lines if line))


def _host(bundle: Bundle, name: str) -> object:
    return bundle.document["host"].get(name)


def _knobs(cell_a: Cell, cell_b: Cell) -> list[str]:
    """Return `service knob` for every knob that either cell sets, sorted."""
    return sorted(
        {f"{service} {kind}" for cell in (cell_a, cell_b) for service, knobs in cell.knobs.items() for kind in knobs}
    )


def _setting(cell: Cell, knob: str) -> str | None:
    service, kind = knob.split(" ", 1)
    return cell.knobs.get(service, {}).get(kind)


def _images(a: Bundle, b: Bundle) -> dict[str, tuple[str | None, str | None]]:
    """Return, by service, each side's image as `_image_ids` has it; None where a side has none."""
    of_a, of_b = (_image_ids(bundle.document.get("images") or {}) for bundle in (a, b))
    return {service: (of_a.get(service), of_b.get(service)) for service in sorted({*of_a, *of_b})}


def _image_ids(images: dict[str, Any]) -> dict[str, str]:
    """Return, by service, the image's name and the start of its id, which alone distinguishes two builds."""
    return {
        service: " ".join(filter(None, (image.get("base") or image.get("reference"), str(image.get("id") or "")[:19])))
        for service, image in images.items()
    }


def _revision(bundle: Bundle) -> str | None:
    git = bundle.document.get("git")
    return str(git.get("revision"))[:10] if git else None
