# SPDX-License-Identifier: Apache-2.0
"""Reads a bundle and whether it agrees with itself: what everything else starts from, and what it is written into."""
