# SPDX-License-Identifier: Apache-2.0
"""Latencies that others published, as data."""
