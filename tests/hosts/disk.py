# SPDX-License-Identifier: Apache-2.0
"""A guest's disk: Debian from its packages, the checkout with its virtual environment, every image of the stand.

Debian is made once and kept; the checkout, and what follows from it, is brought up to date before each boot. The
guest's images are built here, by the project's own code on a second engine whose data are on the mounted disk, for an
emulated machine is too slow to build; the guest then finds every step of its own builds in the cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from hosts import debian, engine, foreign, processes
from hosts.checkout import Checkout
from hosts.debian import ROOT, USERS
from hosts.guests import Guest

SIZE_BYTES = 14 << 30
"""Sparse: some 4 GB are really taken."""

CHECKOUT = "testbed"
"""The folder of the checkout in each user's home."""

ENVIRONMENT = "/srv/venv"
"""The virtual environment of every user."""

WHEELS = "/srv/wheels"
"""Every locked Python package as the guest's own pip chose it: a guest has no network."""


_PREPARE = """
from experiments import engine, images
client = engine.connect()
found = images.ensure(client)
found.record(client)
found.record_base(client)
"""
"""What a run in the guest will do before it measures."""


class Disk:
    """The disk of one guest, in a folder under build/."""

    def __init__(self, guest: Guest, log: Path) -> None:
        self._guest = guest
        self._log = log
        self.folder = ROOT / "build" / "host-test" / guest.name
        self.image = self.folder / "disk.img"
        self.kernel = self.folder / "vmlinuz"
        self.initrd = self.folder / "initrd.img"

    @property
    def made(self) -> bool:
        """Say whether Debian is there as the present recipe has it."""
        stamp = self.folder / "recipe"
        return stamp.exists() and stamp.read_text() == debian.recipe(self._guest)

    def make(self) -> None:
        """Make its Debian, and keep the kernel that QEMU is to boot beside it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        with self.image.open("wb") as image:
            image.truncate(SIZE_BYTES)
        if not self._guest.native:
            foreign.register(self._guest.architecture, self._log)
        self._run("mkfs.ext4", "-q", "-F", "-m", "0", str(self.image))
        with self.mounted() as root:
            debian.make(self._guest, root, self._log)
            shutil.copyfile(root / "vmlinuz", self.kernel)
            shutil.copyfile(root / "initrd.img", self.initrd)
        (self.folder / "recipe").write_text(debian.recipe(self._guest))

    def update(self, checkout: Checkout, public_key: str) -> str:
        """Put checkout, Python packages, images and the key of this run on it; returns the guest's own host key."""
        if not self._guest.native:
            foreign.register(self._guest.architecture, self._log)
        with self.mounted() as root:
            for user, home in USERS.items():
                keys = root / home.lstrip("/") / ".ssh" / "authorized_keys"
                keys.parent.mkdir(mode=0o700, exist_ok=True)
                keys.write_text(public_key)
                self._place(checkout, root, user)
            self._virtual_environment(root)
            if self._guest.containers:
                self._images(root)
            for user, home in USERS.items():
                self._run("chroot", str(root), "chown", "-R", f"{user}:", home)
            return (root / "etc/ssh/ssh_host_ed25519_key.pub").read_text()

    @contextlib.contextmanager
    def mounted(self) -> Iterator[Path]:
        """Mount it; the mount is in a name space of ours and goes with us, whatever happens."""
        root = self.folder / "mounted"
        root.mkdir(exist_ok=True)
        self._run("mount", "-o", "loop,noatime", str(self.image), str(root))
        try:
            yield root
        finally:
            self._run("umount", "--recursive", str(root))

    def _place(self, checkout: Checkout, root: Path, user: str) -> None:
        """Renew a user's checkout; its virtual environment is the one that all of them share."""
        folder = root / USERS[user].lstrip("/") / CHECKOUT
        shutil.rmtree(folder, ignore_errors=True)
        checkout.copy_to(folder, self._log)
        (folder / ".venv").symlink_to(ENVIRONMENT)

    def _virtual_environment(self, root: Path) -> None:
        """Make it by the guest's own Python and pip where the locked packages changed, as `make` would."""
        folder = root / USERS["tester"].lstrip("/") / CHECKOUT
        ready = root / ENVIRONMENT.lstrip("/") / ".ready"
        digest = hashlib.sha256((folder / "requirements-dev.lock").read_bytes()).hexdigest()
        if not ready.exists() or ready.read_text() != digest:
            with self._network(root) as environment:
                inside = ("chroot", str(root), "env", "-i", *environment, "sh", "-euc")
                locked = f"--require-hashes --requirement {USERS['tester']}/{CHECKOUT}/requirements-dev.lock"
                pip = f"{ENVIRONMENT}/bin/pip"
                self._run(*inside, f"rm -rf {ENVIRONMENT} {WHEELS} && python3 -m venv {ENVIRONMENT}")
                self._run(*inside, f"{pip} download --quiet {locked} --dest {WHEELS}")
                self._run(*inside, f"{pip} install --quiet --no-index --find-links {WHEELS} {locked}")
        ready.write_text(digest)  # newer than the lock of the fresh checkouts, or make would install again

    @contextlib.contextmanager
    def _network(self, root: Path) -> Iterator[list[str]]:
        """Lend the guest's system this host's name servers and authorities while it fetches its packages."""
        resolver, authorities = root / "etc/resolv.conf", root / "tmp/authorities.pem"
        environment = ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "PIP_DISABLE_PIP_VERSION_CHECK=1"]
        resolver.write_bytes(Path("/etc/resolv.conf").read_bytes())
        if certificates := os.environ.get("SSL_CERT_FILE"):
            shutil.copyfile(certificates, authorities)
            environment.append("PIP_CERT=/tmp/authorities.pem")
        environment += [f"{name}={os.environ[name]}" for name in ("PIP_INDEX_URL", "https_proxy") if name in os.environ]
        try:
            yield environment
        finally:
            authorities.unlink(missing_ok=True)
            resolver.write_text("")

    def _images(self, root: Path) -> None:
        """Build what the checkout in the guest would build, into the guest's own engine's data."""
        folder = root / USERS["tester"].lstrip("/") / CHECKOUT
        foreign = {} if self._guest.native else {"DOCKER_DEFAULT_PLATFORM": f"linux/{self._guest.architecture}"}
        with engine.on(root / "var/lib/docker", self._log) as address:
            environment = os.environ | foreign | {"DOCKER_HOST": address, "PYTHONPATH": str(folder)}
            if foreign:
                self._foreign_base(environment)
            processes.run([sys.executable, "-c", _PREPARE], self._log, environment, folder)
        # What was asked of each image is remembered by its id, and the guest's builds give the same ids.
        for user in USERS.keys() - {"tester"}:
            shutil.copytree(folder / "build", root / USERS[user].lstrip("/") / CHECKOUT / "build")

    def _foreign_base(self, environment: dict[str, str]) -> None:
        """Make the base image of another architecture, where the project's script would make one of this."""
        from experiments import images  # noqa: PLC0415

        present = subprocess.run(
            ["docker", "image", "inspect", images.BASE], env=environment, capture_output=True, check=False
        )
        if present.returncode == 0:
            return
        tar = self.folder / "base.tar"
        debian.bootstrap(self._guest, tar, "ca-certificates", self._log)
        platform_name = f"linux/{self._guest.architecture}"
        processes.run(["docker", "import", "--platform", platform_name, str(tar), images.BASE], self._log, environment)
        tar.unlink()

    def _run(self, *command: str) -> None:
        processes.run(command, self._log)


def missing_tools(guest: Guest) -> list[str]:
    """Give the Debian packages whose programs this host lacks."""
    programs = {
        "mmdebstrap": "mmdebstrap", "mkfs.ext4": "e2fsprogs", "slirp4netns": "slirp4netns", "dockerd": "docker.io",
        "ssh": "openssh-client", "unshare": "util-linux",
        guest.program: "qemu-system-x86" if guest.architecture == "amd64" else "qemu-system-arm",
    }  # fmt: skip
    if not guest.native:
        programs |= {foreign.program(guest.architecture): "qemu-user-static", "update-binfmts": "binfmt-support"}
    return sorted({package for program, package in programs.items() if shutil.which(program) is None})
