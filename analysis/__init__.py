# SPDX-License-Identifier: Apache-2.0
"""Reads bundles: statistics, tables, figures, comparison, verification, report.

A bundle is the folder that one run leaves behind; `docs/bundle.md` is all this package knows of the stand.
Every table and figure is derived again from the samples, offline, and comes out the same byte for byte.
"""
