# SPDX-License-Identifier: Apache-2.0
"""Reads bundles, in four rooms: reading, statistics, judging, showing; each knows only those before it.

A bundle is the folder that one run leaves behind; `docs/bundle.md` is all this package knows of the stand.
Every table and figure is derived again from the samples, offline, and comes out the same byte for byte.
"""
