# SPDX-License-Identifier: Apache-2.0
"""Command line of the runner."""

from __future__ import annotations

import sys

from experiments.cli import main

sys.exit(main())
