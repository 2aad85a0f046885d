# SPDX-License-Identifier: Apache-2.0
"""Scenarios to bundles: what to run, on which stand, under which conditions, and what came of it."""
