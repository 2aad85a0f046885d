# SPDX-License-Identifier: Apache-2.0
"""`make host-test HOST=debian13 [QUICK=1] [STEPS='path|replay'] [BUNDLE=…]`."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import sys
import types
from collections.abc import Iterator

from hosts import debian, disk, guests, steps
from hosts.errors import HostTestError
from hosts.trial import Trial

_APART = "HOST_TEST_APART"


def main() -> int:
    """Check what is asked for, and what this host lacks, before anything starts; then try."""
    try:
        guest = guests.named(os.environ.get("HOST", ""))
        quick = os.environ.get("QUICK", "0")
        if quick not in ("0", "1", ""):
            raise HostTestError(f"QUICK={quick}: allowed are 0 and 1", exit_code=2)
        planned = steps.plan(guest, quick=quick == "1", some=os.environ.get("STEPS", ""))
        _check_this_host(guest)
        # Mounts in a name space of our own are gone with us, even after kill -9.
        if _APART not in os.environ:
            sys.stdout.flush()
            os.execvpe("unshare", ["unshare", "--mount", sys.executable, "-m", "hosts"], os.environ | {_APART: "1"})
        # Also where a shell without job control started us in the background, with SIGINT ignored.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _interrupt)
        with _alone():
            return Trial(guest, planned).run()
    except HostTestError as error:
        print(f"host-test: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("\nhost-test: interrupted; the guest and its mounts are gone", file=sys.stderr)
        return 130


def _check_this_host(guest: guests.Guest) -> None:
    if os.geteuid() != 0:
        raise HostTestError(
            "this needs root: it mounts the guest's disk and builds its images with an engine of its own on it", 2
        )
    if lacking := disk.missing_tools(guest):
        raise HostTestError(f"this host lacks programs: apt-get install {' '.join(lacking)}", exit_code=2)
    free_gb = shutil.disk_usage(debian.ROOT).free >> 30
    if free_gb < 10:
        raise HostTestError(f"{free_gb} GB are free here; a guest's disk takes up to 10 GB under build/", exit_code=2)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """One guest at a time: two would share a disk, and slow each other down."""
    path = debian.ROOT / "build" / "host-test" / "lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HostTestError("another host test runs in this checkout; wait for it or stop it", 2) from None
        yield


def _interrupt(_number: int, _frame: types.FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
