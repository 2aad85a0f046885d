# SPDX-License-Identifier: Apache-2.0
"""How late the instrument itself was, and its floor: the line that stands under every table of latencies."""

import numpy as np

from analysis.reading.bundle import Bundle
from analysis.showing.findings import rough
from analysis.statistics.quantity import percentage

LATE_US = 1000
"""A request that left later than this after its time counts as late."""


def line(bundle: Bundle) -> str:
    """Return `Instrument: …`: how late counted repetitions sent, and the median of a TCP echo."""
    floor = (
        f"floor {rough(bundle.floor_us)} ms (median of a TCP echo on the same stand)"
        if bundle.floor_us
        else ("floor not measured")
    )
    late = _lateness(bundle)
    return f"Instrument: {late}; {floor}." if late else f"Instrument: {floor}."


def _lateness(bundle: Bundle) -> str:
    frames = [bundle.counted(cell).select("late_us").drop_nulls() for cell in bundle.cells]
    late_us = np.concatenate([np.zeros(0, dtype=np.int32), *(frame["late_us"].to_numpy() for frame in frames)])
    if not len(late_us):
        return ""
    p99 = np.quantile(late_us, 0.99, method="higher")
    share = f"{percentage(int((late_us > LATE_US).sum()), len(late_us))} later than {LATE_US / 1000:g} ms"
    return f"99 % of the sends left within {rough(float(p99))} ms of their time, {share}"
