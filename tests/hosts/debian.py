# SPDX-License-Identifier: Apache-2.0
"""A guest's Debian, from its packages, as a bootable file system; made once and kept until this recipe changes."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from hosts import processes
from hosts.errors import HostTestError
from hosts.guests import Guest

ROOT = Path(__file__).parents[2]

USERS = {"root": "/root", "tester": "/home/tester", "outsider": "/home/outsider"}
"""Who may log in: root, a user in group docker, and one who is not."""

PACKAGES = (
    "systemd-sysv", "dbus", "udev", "libpam-systemd", "openssh-server", "kmod", "iproute2", "procps", "iptables",
    "apparmor", "ca-certificates", "python3", "python3-venv", "make", "git",
    "stress",  # what disturbs plain processes; in containers it has an image
)  # fmt: skip

_SETTINGS = {
    "etc/hostname": "guest\n",
    "etc/hosts": "127.0.0.1 localhost guest\n",
    "etc/fstab": "/dev/vda / ext4 noatime 0 1\n",
    # No gateway and no name server: what needs the network fails at once, as it should, instead of waiting.
    "etc/systemd/network/10-testbed.network": "[Match]\nName=en* eth*\n\n[Network]\nAddress=10.0.2.15/24\n",
    "etc/resolv.conf": "",
}
_SERVICES = ("systemd-networkd", "ssh", "docker")
_NOT_WANTED = ("systemd-networkd-wait-online.service", "apt-daily.timer", "apt-daily-upgrade.timer", "fstrim.timer")


def recipe(guest: Guest) -> str:
    """What a Debian that was made depends on, as a digest."""
    return hashlib.sha256((repr(guest) + Path(__file__).read_text()).encode()).hexdigest()


def make(guest: Guest, root: Path, log: Path) -> None:
    """Fill an empty file system; a minute natively, twenty under emulation."""
    packages = ",".join((guest.kernel, *PACKAGES, *guest.engine))
    bootstrap(guest, root, packages, log)
    (root / "etc/resolv.conf").unlink(missing_ok=True)
    for name, text in _SETTINGS.items():
        (root / name).write_text(text)
    for command in (
        ["systemctl", "--quiet", "enable", *_SERVICES],
        ["systemctl", "--quiet", "mask", *_NOT_WANTED],
        ["useradd", "--create-home", "--shell", "/bin/bash", "--groups", "docker", "tester"],
        ["useradd", "--create-home", "--shell", "/bin/bash", "outsider"],
    ):
        processes.run(["chroot", str(root), *command], log)


def bootstrap(guest: Guest, target: Path, packages: str, log: Path) -> None:
    """Let mmdebstrap make a folder, or a tar file, of the guest's release and architecture."""
    script = ROOT / "compose" / "host" / "debian-mirror.sh"
    mirror = subprocess.run(["bash", str(script)], capture_output=True, text=True, check=False).stdout.strip()
    if not mirror:
        raise HostTestError("no Debian mirror in this host's apt sources; add one", exit_code=2)
    options = ["--quiet", "--variant=minbase", f"--architectures={guest.architecture}", f"--include={packages}"]
    # A mirror may keep a snapshot, whose lists are past their date; unstable's are after a week.
    options.append('--aptopt=Acquire::Check-Valid-Until "false"')
    processes.run(["mmdebstrap", *options, guest.suite, str(target), mirror], log)
