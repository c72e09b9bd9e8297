"""The process that outlives an emulator to clean up its nodes, however the emulator ended.

    python -I -S guard.py FILE COMMAND...

FILE is the owner's; COMMAND cleans up where the file is left. The standard input is a pipe from the
emulator, which writes nothing: the end of it is the news. Each emulator has a guard, so it starts
by its path, without rsctl.
"""

from __future__ import annotations

import os
import signal
import sys


def main(file: str, *command: str) -> None:
    """Wait for the end of the emulator, then clean up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    if os.path.exists(file):
        os.execv(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main(*sys.argv[1:])
