# SPDX-License-Identifier: Apache-2.0
"""Debian 13 on 64-bit ARM, as a Raspberry Pi's architecture is: its own kernel and its own Docker."""

from hosts.guests import Guest

GUEST = Guest(
    name="debian13-arm64",
    suite="trixie",
    architecture="arm64",
    kernel="linux-image-arm64",
    program="qemu-system-aarch64",
    # Pointer authentication and SVE as QEMU emulates them make a boot several times longer.
    emulated=("-machine", "virt,gic-version=3", "-cpu", "max,pauth-impdef=on,sve=off"),
    virtualised=("-machine", "virt,gic-version=host", "-cpu", "host"),
    console="ttyAMA0",
    memory_mb=3072,
    boot_s=80,
)
