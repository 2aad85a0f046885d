# SPDX-License-Identifier: Apache-2.0
"""Tables, figures, pages and lines for a reader; the last room, which knows all others."""
