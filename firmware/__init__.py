# SPDX-License-Identifier: Apache-2.0
"""The board: its sketch, its protocol, and two stand-ins for the real one."""
