# SPDX-License-Identifier: Apache-2.0
"""Arrays of numbers; docstrings give their shapes."""

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
