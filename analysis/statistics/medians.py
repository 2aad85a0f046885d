# SPDX-License-Identifier: Apache-2.0
"""The median of a few values, infinities among them, and how sure it is."""

import numpy as np
from scipy import special

from analysis.reading.arrays import Floats


def of(values: Floats) -> float:
    """Return the median of `values` (N,), halfway between the middle two for an even N; infinite where either is."""
    ordered = np.sort(values)
    low, high = float(ordered[(len(ordered) - 1) // 2]), float(ordered[len(ordered) // 2])
    return high if np.isinf(high) else (low + high) / 2


def limits(values: Floats, confidence: float) -> tuple[float, float] | None:
    """Return two order statistics that enclose the median; None where there are too few values for this confidence.

    The count below the median is binomial whatever the distribution, so that the k-th smallest and the k-th largest
    enclose it with at least that confidence for the largest k with P(Bin(N, ½) < k) ≤ (1 − confidence) / 2: Conover
    (1999), "Practical nonparametric statistics", section 3.2. At 95 % six values are the fewest that allow it.
    """
    k = int((special.bdtr(np.arange(len(values)), len(values), 0.5) < (1 - confidence) / 2).sum())
    ordered = np.sort(values)
    return (float(ordered[k - 1]), float(ordered[-k])) if k >= 1 else None
