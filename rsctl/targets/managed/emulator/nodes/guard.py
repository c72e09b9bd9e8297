"""The process that outlives an emulator to clear away its nodes, however the emulator ended.

Its standard input is a pipe from the emulator, which writes nothing: the end of it is the news.
"""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Wait for the end of the emulator, then clear away."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    from rsctl.targets.managed.emulator.nodes.owner import (
        clear_dying,  # while the emulator lives, this is small
    )

    clear_dying(sys.argv[1])


if __name__ == "__main__":
    main()
