# SPDX-License-Identifier: Apache-2.0
"""When a run with `PRECISION` looks whether it has its answer, and what each look costs: fixed before it starts.

Who looks often and stops when it suits him is wrong often. So each look may spend only its part of the chance of error:
Lan and DeMets (1983), "Discrete sequential boundaries for clinical trials", Biometrika 70(3), with their spending
function of Pocock's kind.
"""

import math
from dataclasses import dataclass

FRACTIONS = (1 / 4, 1 / 2, 1)
"""Where the looks are, as parts of the most repetitions."""
FEWEST = 6
"""Repetitions before a look can tell anything: 6 blocks of two arms have 64 relabellings."""
USUAL_REPETITIONS = 40
"""The most repetitions of a run with PRECISION, unless the user says."""
SPENDING = "α ln(1 + (e − 1) t)"


@dataclass(frozen=True)
class Look:
    """A look after so many repetitions of every cell; `share` is the part of the chance of error that it spends."""

    repetitions: int
    share: float


def looks(repetitions: int) -> tuple[Look, ...]:
    """Return the looks of a run of at most this many repetitions (at least `FEWEST`); the last one is at its end."""
    at = sorted({max(FEWEST, math.ceil(fraction * repetitions)) for fraction in FRACTIONS})
    spent = [_spent(number / repetitions) for number in at]
    return tuple(
        Look(number, round(now - before, 6)) for number, now, before in zip(at, spent, [0.0, *spent], strict=False)
    )


def _spent(t: float) -> float:
    """Return the part of the chance of error that may be spent by the part `t` of the repetitions."""
    return math.log(1 + (math.e - 1) * t)
