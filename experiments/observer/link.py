# SPDX-License-Identifier: Apache-2.0
"""`python -m experiments.observer.link`: cuts and mends the network interface of the namespace it runs in.

    {"do": "cut"}     the interface goes down       -> {"up": false}
    {"do": "mend"}    it comes up again             -> {"up": true}
    {"do": "read"}    neither                       -> {"up": …}

It runs beside the Pi, in the Pi's network namespace, with CAP_NET_ADMIN, only for the fault `link:cut`. At the end of
its input it mends the link.
"""

from __future__ import annotations

import fcntl
import json
import socket
import struct
import sys

_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1
_IFREQ = "16sH22x"


class Link:
    """The one interface of this namespace that is not loopback; see netdevice(7)."""

    def __init__(self, name: str) -> None:
        self._name = name.encode()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def read(self) -> dict[str, bool]:
        """Return whether it is up."""
        return {"up": bool(self._flags() & _IFF_UP)}

    def cut(self) -> dict[str, bool]:
        """Take it down; its address stays."""
        self._set(self._flags() & ~_IFF_UP)
        return self.read()

    def mend(self) -> dict[str, bool]:
        """Bring it up."""
        self._set(self._flags() | _IFF_UP)
        return self.read()

    def _flags(self) -> int:
        reply = fcntl.ioctl(self._socket, _SIOCGIFFLAGS, struct.pack(_IFREQ, self._name, 0))
        return int(struct.unpack(_IFREQ, reply)[1])

    def _set(self, flags: int) -> None:
        fcntl.ioctl(self._socket, _SIOCSIFFLAGS, struct.pack(_IFREQ, self._name, flags))


def interface() -> str:
    """Return the name of the interface; raise OSError where there is none, or more than one."""
    names = [name for _, name in socket.if_nameindex() if name == "eth0" or name.startswith("en")]
    if len(names) != 1:
        raise OSError(f"{len(names)} interfaces that could be the Pi's")
    return names[0]


def main() -> None:
    """Answer one request a line until there are no more."""
    link = Link(interface())
    try:
        for line in sys.stdin:
            request = json.loads(line)
            try:
                reply: dict[str, object] = dict(
                    {"cut": link.cut, "mend": link.mend, "read": link.read}[request["do"]]()
                )
            except OSError as error:
                reply = {"error": str(error)}
            print(json.dumps(reply), flush=True)
    finally:
        link.mend()


if __name__ == "__main__":
    main()
