# SPDX-License-Identifier: Apache-2.0
"""Debian 12 on x86 with its own Docker 20.10, which has no Compose v2: what is refused, and plain processes."""

import dataclasses

from hosts.guests import debian13

GUEST = dataclasses.replace(debian13.GUEST, name="debian12", suite="bookworm", engine=("docker.io",), containers=False)
