# SPDX-License-Identifier: Apache-2.0
"""From samples to the figures of each cell, and how sure they are."""
