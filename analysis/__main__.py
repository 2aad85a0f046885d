# SPDX-License-Identifier: Apache-2.0
"""`python -m analysis`."""

from analysis.cli import main

main()
