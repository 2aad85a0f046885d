# SPDX-License-Identifier: Apache-2.0
"""Debian 13 on x86: cgroup v2, systemd, AppArmor, its own kernel and its own Docker."""

from hosts.guests import Guest

GUEST = Guest(
    name="debian13",
    suite="trixie",
    architecture="amd64",
    kernel="linux-image-amd64",
    program="qemu-system-x86_64",
    emulated=("-cpu", "max"),
    virtualised=("-cpu", "host"),
    console="ttyS0",
    memory_mb=6144,
    boot_s=60,
)
