# SPDX-License-Identifier: Apache-2.0
"""A guest that runs: QEMU with KVM where that really works, else by emulation; commands and files go over SSH."""

from __future__ import annotations

import contextlib
import functools
import re
import shlex
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hosts import processes
from hosts.disk import Disk
from hosts.errors import HostTestError
from hosts.guests import Guest

_KVM_PATIENCE_S = 15.0
_BOOT_PATIENCE = 10
"""A guest that takes so many times longer to boot than on a quiet host is given up."""


@dataclass(frozen=True)
class Done:
    """A command that ended in the guest; both its streams, mixed as they came."""

    code: int
    said: str


class Machine:
    """One booted guest. Nothing that happens in it outlives it: its disk is a throw-away layer on the cached one."""

    def __init__(self, guest: Guest, disk: Disk, host_key: str, identity: Path, log: Path) -> None:
        self._guest = guest
        self._disk = disk
        self._host_key = host_key
        self._identity = identity
        self._log = log
        self._port = 0
        self._known = self._folder = Path()

    @functools.cached_property
    def accelerator(self) -> str:
        """`kvm` where the guest's own kernel is seen to boot with it, else `tcg`."""
        return "kvm" if self._guest.native and self._kvm_boots() else "tcg"

    @contextlib.contextmanager
    def running(self) -> Iterator[Machine]:
        """Boot it and wait until it takes commands; it is gone afterwards, whatever happens."""
        with contextlib.ExitStack() as stack:
            self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="host-test-")))
            self._port = _free_port()
            self._known = self._folder / "known_hosts"
            self._known.write_text(f"[127.0.0.1]:{self._port} {self._host_key}")
            process = processes.start(self._command(), self._log)
            stack.callback(processes.stop, process)
            self._wait_for_boot(process)
            yield self

    def run(self, user: str, command: str, timeout_s: float = 120) -> Done:
        """Run a shell command as a user of the guest; a code of 124 says that it took too long, as timeout(1)."""
        # Ended in the guest first: a connection that is cut does not end what runs at its far end.
        limited = f"timeout --signal=INT --kill-after=60 {timeout_s:.0f} bash -c {shlex.quote(command)}"
        try:
            done = subprocess.run(
                [*self._ssh(user), limited], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, timeout=timeout_s + 120, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as expired:
            return Done(124, (expired.stdout or b"").decode(errors="replace"))
        return Done(done.returncode, done.stdout.decode(errors="replace"))

    def fetch(self, user: str, folder: str, target: Path) -> None:
        """Copy what is in a folder of the guest into `target`."""
        target.mkdir(parents=True, exist_ok=True)
        packed = subprocess.run(
            [*self._ssh(user), f"tar -C {folder} -chf - ."], stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        if packed.returncode:
            raise HostTestError(f"{folder} cannot be read in the guest: {packed.stderr.decode(errors='replace')}")
        subprocess.run(["tar", "-C", str(target), "-xf", "-"], input=packed.stdout, check=True)

    def read(self, path: str, offset: int = 0) -> bytes:
        """Give a file's bytes from `offset` on."""
        command = [*self._ssh("root"), f"tail --bytes=+{offset + 1} {path}"]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True).stdout

    def send(self, user: str, source: Path, folder: str) -> None:
        """Copy a file, or what is in a folder, into a folder of the guest, which is made."""
        name = ["-C", str(source), "."] if source.is_dir() else ["-C", str(source.parent), source.name]
        packed = subprocess.run(["tar", "-cf", "-", *name], capture_output=True, check=True).stdout
        command = f"mkdir -p {folder} && tar -C {folder} --no-same-owner -xf -"
        subprocess.run([*self._ssh(user), command], input=packed, stdout=subprocess.DEVNULL, check=True)

    def _command(self) -> list[str]:
        kvm = self.accelerator == "kvm"
        # A busy host makes an emulated guest slow, and systemd would give up what only takes its time.
        patience = "systemd.default_timeout_start_sec=900 systemd.default_device_timeout_sec=900"
        append = f"root=/dev/vda rw quiet console={self._guest.console} {patience}"
        return [
            self._guest.program, "-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio",
            "-accel", "kvm" if kvm else "tcg,thread=multi",
            *(self._guest.virtualised if kvm else self._guest.emulated),
            "-smp", "2", "-m", str(self._guest.memory_mb),
            "-kernel", str(self._disk.kernel), "-initrd", str(self._disk.initrd), "-append", append,
            # The guest may lose power at any time: its layer is thrown away, so nothing need reach the platters.
            "-drive", f"file={self._disk.image},if=virtio,format=raw,cache=unsafe,snapshot=on",
            "-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{self._port}-:22",
            "-device", "virtio-net-pci,netdev=net", "-device", "virtio-rng-pci",
        ]  # fmt: skip

    def _kvm_boots(self) -> bool:
        """Try it: /dev/kvm may be there, and the guest's kernel not come up with it."""
        if not Path("/dev/kvm").exists():
            return False
        command = [
            self._guest.program, "-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio", "-accel", "kvm",
            *self._guest.virtualised, "-m", "512", "-kernel", str(self._disk.kernel),
            "-append", f"console={self._guest.console} panic=-1",
        ]  # fmt: skip
        try:
            tried = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_KVM_PATIENCE_S
            )
        except subprocess.TimeoutExpired:
            return False
        # Without a disk a kernel that boots ends by saying that it has no root file system.
        return re.search(rb"Unable to mount root fs", tried.stdout) is not None

    def _wait_for_boot(self, process: subprocess.Popen[bytes]) -> None:
        until_s = time.monotonic() + self._guest.boot_s * _BOOT_PATIENCE
        while time.monotonic() < until_s:
            if process.poll() is not None:
                raise HostTestError(f"QEMU ended with {process.returncode}; see {self._log}")
            if self.run("root", "docker version >/dev/null", timeout_s=60).code == 0:
                return
            time.sleep(1)
        raise HostTestError(f"the guest does not answer; its console is in {self._log}")

    def _ssh(self, user: str) -> list[str]:
        options = {
            "IdentitiesOnly": "yes", "BatchMode": "yes", "StrictHostKeyChecking": "yes", "LogLevel": "ERROR",
            "UserKnownHostsFile": str(self._known), "ConnectTimeout": "30", "ServerAliveInterval": "30",
            # A handshake takes seconds in an emulated guest: one for all commands of a user.
            "ControlMaster": "auto", "ControlPath": str(self._folder / "%r"), "ControlPersist": "60",
        }  # fmt: skip
        given = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        return [
            "ssh", "-F", "none", *given, "-i", str(self._identity), "-p", str(self._port), f"{user}@127.0.0.1",
        ]  # fmt: skip


def new_identity(folder: Path) -> Path:
    """Make a key for one run; its public half is beside it."""
    identity = folder / "identity"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "host-test", "-f", str(identity)], check=True)
    return identity


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
