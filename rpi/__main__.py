# SPDX-License-Identifier: Apache-2.0
"""The bridge's command line; on the Pi itself: `python -m rpi --broker 192.0.2.7 --serial /dev/ttyUSB0 --board usb`."""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys

from clients import way
from clients.connection import sharpen_timers
from clients.way import Way
from clients.wire import BOARD
from rpi.board import Board, NoBoard, SerialBoard
from rpi.bridge import Bridge


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and serve until stopped; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m rpi", description="Bridge between an MQTT broker and a board.")
    way.add_arguments(parser)
    parser.add_argument(
        "--serial", default=os.environ.get("SERIAL_PORT", "/dev/ttyUSB0"), help="the board's serial port"
    )
    parser.add_argument(
        "--board",
        type=_word,
        default=os.environ.get("BOARD", "usb"),
        help="what is behind the port (usb, simavr, model, …), as it will stand in each sample; none: answer at once",
    )
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    sharpen_timers()
    board: Board = NoBoard() if options.board == "none" else SerialBoard(options.serial)
    # The bridge makes no reference cycles worth a collector's pause in the middle of R.
    gc.disable()
    try:
        Bridge(Way.of(options), board, options.board).serve()
    except KeyboardInterrupt:
        return 130
    return 0


def _word(text: str) -> str:
    """A name that the wire format can carry."""
    if not BOARD.match(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no lower-case word, such as usb, simavr, model or none")
    return text


if __name__ == "__main__":
    sys.exit(main())
