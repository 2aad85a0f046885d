# SPDX-License-Identifier: Apache-2.0
"""The observer: sets what only the kernel can set, reads it back, and samples resources.

It runs beside the engine's containers (in one of its own that sees the host's processes) or as a plain process, and
needs Python's standard library only. The runner may thus be an ordinary user in the group docker.
"""
