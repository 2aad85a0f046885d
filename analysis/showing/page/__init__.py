# SPDX-License-Identifier: Apache-2.0
"""The report's style sheet and script, as they go into the page."""
