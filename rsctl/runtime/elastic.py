"""torchrun, ending with the exit code of its first failed rank and without a traceback of its own.

torchrun itself ends with 1 whatever a rank ended with, and prints forty lines about its own stack;
what there is to say of a failed rank, `rank.py` has said.
"""

from __future__ import annotations

import sys
from time import sleep

from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous.static_tcp_rendezvous import StaticTCPRendezvous
from torch.distributed.run import parse_args, run

_LINGER_SECONDS = 0.5


def main() -> int:
    """Run torchrun with the arguments of the command line; returns the node's exit code."""
    options = parse_args(sys.argv[1:])  # type: ignore[no-untyped-call]
    store = _keep_store()
    try:
        run(options)  # type: ignore[no-untyped-call]
        if options.node_rank == 0 and options.nnodes != "1":
            # A node that still waits to hear that all have come to the end would print two
            # tracebacks about a lost connection.
            sleep(_LINGER_SECONDS)
            store.clear()
    except ChildFailedError as failed:
        _, failure = failed.get_first_failure()
        return int(failure.exitcode) if failure.exitcode > 0 else 128 - int(failure.exitcode)
    except SignalException as stopped:
        return 128 + int(stopped.sigval)
    return 0


def _keep_store() -> list[object]:
    """Have the nodes' store, which lives in the chief's process, live on when torchrun has ended.

    Returns what holds it.
    """
    held: list[object] = []
    meet = StaticTCPRendezvous.next_rendezvous

    def next_rendezvous(self: StaticTCPRendezvous) -> object:
        held.append(self)
        return meet(self)

    StaticTCPRendezvous.next_rendezvous = next_rendezvous  # type: ignore[method-assign,assignment]
    return held


if __name__ == "__main__":
    sys.exit(main())
