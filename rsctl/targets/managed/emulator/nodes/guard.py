"""The process that outlives an emulator to clean up its nodes, however the emulator ended.

Its standard input is a pipe from the emulator, which writes nothing: the end of it is the news.
"""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Wait for the end of the emulator, then clean up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    from rsctl.targets.managed.emulator.nodes.owner import (
        clean_up_dying,  # while the emulator lives, this is small
    )

    clean_up_dying(sys.argv[1])


if __name__ == "__main__":
    main()
