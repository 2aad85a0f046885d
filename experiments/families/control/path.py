# SPDX-License-Identifier: Apache-2.0
"""Splits O along the path of a cycle, from what a capture at the broker saw; the parts add up to O.

    client ──1──▶ broker ──2──▶ … ──3──▶ Pi (R) ──3──▶ broker ──4──▶ … ──5──▶ client

1, 5: network and client library; 2, 4: in the broker; 3: from the broker to the Pi and back, less R. The Pi's clock is
never used: part 3 is a difference of the broker host's clock, less a duration that the Pi measured.
"""

from __future__ import annotations

import itertools
from typing import Any

PARTS = ("client_to_broker_us", "in_broker_request_us", "broker_to_pi_and_back_us", "in_broker_answer_us",
         "broker_to_client_us")  # fmt: skip

_KEPT = {
    "scenario": str,
    "arm": str,
    "interval_ms": int,
    "qos": int,
    "repetition": int,
    "sequence": int,
    "warmup": bool,
}
COLUMNS = _KEPT | dict.fromkeys(PARTS, float) | {"o_us": int}

Passed = dict[tuple[str, str, int], int]
"""When (ns, CLOCK_MONOTONIC) a message passed, by direction, kind and sequence."""


def passed(messages: list[list[Any]], repetition: int) -> Passed:
    """Index one repetition's messages; of one that passed twice (a duplicate) the first counts."""
    times_ns: Passed = {}
    for passed_ns, direction, kind, of_repetition, sequence in messages:
        if of_repetition == repetition:
            times_ns.setdefault((direction, kind, sequence), passed_ns)
    return times_ns


def split(sample: dict[str, Any], seen: Passed) -> dict[str, Any] | None:
    """Return the parts of one sample's O in µs; None where the cycle was lost or the capture missed a message."""
    sequence = sample["sequence"]
    times = [seen.get((direction, kind, sequence)) for kind in ("request", "answer") for direction in ("in", "out")]
    if sample["o_us"] is None or sample["status"] == "duplicate" or None in times:
        return None
    request_in, request_out, answer_in, answer_out = (int(time) for time in times if time is not None)
    borders = [sample["sent_ns"], request_in, request_out, answer_in, answer_out, sample["received_ns"]]
    parts = [(later - earlier) / 1000 for earlier, later in itertools.pairwise(borders)]
    parts[2] -= sample["r_us"]
    kept = {name: sample[name] for name in _KEPT}
    return kept | dict(zip(PARTS, (round(part, 1) for part in parts), strict=True)) | {"o_us": sample["o_us"]}
