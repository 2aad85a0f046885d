# SPDX-License-Identifier: Apache-2.0
"""Debian unstable on x86: the newest kernel, Python and Docker that Debian has."""

import dataclasses

from hosts.guests import debian13

GUEST = dataclasses.replace(debian13.GUEST, name="debian-unstable", suite="sid")
