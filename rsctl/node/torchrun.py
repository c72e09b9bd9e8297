"""Runs torch's launcher, ending with the exit code of its first failed rank and no traceback.

torchrun itself ends with 1 for each exit code of a rank, and prints forty lines about its own
stack; `rank.py` has already reported a failed rank. After a stop signal torchrun kills after 30
seconds; platforms allow more, and the process that stops a node decides how long it may take.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from time import monotonic, sleep, time
from typing import Any

from torch.distributed.elastic.agent.server.api import SimpleElasticAgent, WorkerState
from torch.distributed.elastic.multiprocessing import api as processes
from torch.distributed.elastic.multiprocessing.api import PContext, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous import static_tcp_rendezvous
from torch.distributed.elastic.rendezvous.static_tcp_rendezvous import StaticTCPRendezvous
from torch.distributed.run import parse_args, run

from rsctl.node import stderr_tail
from rsctl.node.network import is_loopback
from rsctl.node.rank import FAILURE_FILE
from rsctl.node.soft_stop import is_stop_asked

_LINGER_SECONDS = 0.5
_FOREVER_SECONDS = 10**6
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.02, 0.2  # shorter than the chief's linger
_EPOCH = "RSCTL_EPOCH"


def main() -> int:
    """Run torchrun with the arguments of the command line; returns the node's exit code."""
    options = parse_args(sys.argv[1:])  # type: ignore[no-untyped-call]
    # torch replaces ${local_rank} and $$ in the arguments of each rank (torch.distributed.elastic,
    # local_elastic_agent.py, `macros.substitute`).
    options.training_script_args = [
        word.replace("$", "$$") for word in options.training_script_args
    ]
    store = _hold_store()
    _keep_store_on_loopback()
    _wait_for_ranks_after_stop()
    ended = _end_wait_for_nodes_on_signals()
    _pass_on_stop_signals()
    meetings = None
    if options.max_restarts:
        from rsctl.node import in_place

        meetings = in_place.Meetings(options.max_restarts)
        in_place.restart_together(meetings)
    if os.environ.get("RSCTL_REDUCERS") and _EPOCH not in os.environ:
        _agree_on_epochs(lambda: meetings.number if meetings else len(store))
    try:
        run(options)  # type: ignore[no-untyped-call]
        if options.node_rank == 0 and options.nnodes != "1":
            # A node that still waits for the message that all have ended would print two
            # tracebacks about a lost connection.
            sleep(_LINGER_SECONDS)
            store.clear()
    except ChildFailedError as failed:
        _, failure = failed.get_first_failure()
        return int(failure.exitcode) if failure.exitcode > 0 else 128 - int(failure.exitcode)
    except SignalException as stopped:
        if ended:
            return 0
        return 128 + int(stopped.sigval)
    except Exception as error:
        _report_own_failure(error)
        raise
    return 0


def _hold_store() -> list[object]:
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


def _keep_store_on_loopback() -> None:
    """If all nodes are on this machine's loopback, make the nodes' store listen only there.

    By default torch's store listens on all interfaces, and does not authenticate its clients.
    """
    module: Any = static_tcp_rendezvous
    plain = module.TCPStore
    if "master_listen_fd" not in (plain.__init__.__doc__ or ""):  # a torch before 2.2
        return

    def store_of(
        host: str, port: int, world_size: int, is_master: bool, *more: Any, **rest: Any
    ) -> Any:
        if is_master and is_loopback(host):
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            with suppress(OSError):  # torch itself reports a port that is taken
                listener = socket.create_server((host, port), family=family)
                port = listener.getsockname()[1]
                rest["master_listen_fd"] = listener.detach()
        return plain(host, port, world_size, is_master, *more, **rest)

    module.TCPStore = store_of


def _agree_on_epochs(meeting: Callable[[], int]) -> None:
    """Have the nodes agree on an epoch at each start of all ranks; `meeting` is its number, which a
    node that missed a start learns as it joins the next.
    """
    meet = StaticTCPRendezvous.next_rendezvous

    def next_rendezvous(self: StaticTCPRendezvous) -> object:
        met = meet(self)
        _agree_on_epoch(self._store, self.rank == 0, meeting())
        return met

    StaticTCPRendezvous.next_rendezvous = next_rendezvous  # type: ignore[method-assign,assignment]


def _agree_on_epoch(store: Any, is_chief: bool, meeting: int) -> None:
    """Give the ranks an epoch that is later than any that the reducers may have seen.

    A platform may restart the workers' containers and leave the reducers', which refuse what would
    be the epoch that has just failed. The chief's clock decides, in seconds; ranks that restart in
    place may fail within one.
    """
    key = f"rsctl/epoch/{meeting}"
    if is_chief:
        store.set(key, str(max(int(time()), int(os.environ.get(_EPOCH, 0)) + 1)))
    os.environ[_EPOCH] = store.get(key).decode()


def _wait_for_ranks_after_stop() -> None:
    """After a stop signal, wait for the ranks until they have ended or we are killed."""
    close = PContext.close

    def patient_close(self: PContext, death_sig: Any = None, timeout: int = 30) -> None:
        is_stopped = isinstance(sys.exc_info()[1], SignalException)
        close(self, death_sig, _FOREVER_SECONDS if is_stopped else timeout)

    PContext.close = patient_close  # type: ignore[method-assign]


def _end_wait_for_nodes_on_signals() -> list[object]:
    """Have a stop signal end the wait for the other nodes after this node's ranks have ended.

    torch waits in C++, where Python's handlers of signals do not run, so that this node would be
    killed. Returns what has an element once the ranks have ended with exit code 0.
    """
    ended: list[object] = []
    wait_for_nodes = SimpleElasticAgent._exit_barrier

    def exit_barrier(self: Any) -> None:
        if self._worker_group.state == WorkerState.SUCCEEDED:
            ended.append(self)
        self._store = _PolledStore(self._store)
        wait_for_nodes(self)  # type: ignore[no-untyped-call]

    SimpleElasticAgent._exit_barrier = exit_barrier  # type: ignore[method-assign]
    return ended


class _PolledStore:
    """torch's store, whose waits let handlers of signals run."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def wait(self, keys: list[str]) -> None:
        """Wait until the store has all keys. After the store's own timeout the error is torch's."""
        deadline = monotonic() + self._store.timeout.total_seconds()
        pause = _FIRST_PAUSE_SECONDS
        while not self._store.check(keys):
            if is_stop_asked(os.environ):
                raise SignalException("asked to end", signal.SIGTERM)
            if monotonic() >= deadline:
                self._store.wait(keys, timedelta(milliseconds=1))
            sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def get(self, key: str) -> bytes:
        """The value of a key, once the store has it; torch before 2.5 waits so."""
        self.wait([key])
        return bytes(self._store.get(key))


def _pass_on_stop_signals() -> None:
    """Pass SIGUSR1 and SIGUSR2 on to the ranks as torch does with SIGTERM.

    torch 2.13 can do that with --signals-to-handle; older versions may have no such option.
    """
    for signum in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(signum, processes._terminate_process_handler)


def _report_own_failure(error: Exception) -> None:
    """Report a failure of torchrun's own to the platform, such as a node that never came."""
    if path := os.environ.get(FAILURE_FILE):
        replica = os.environ.get("RSCTL_REPLICA", "this node")
        lines = "".join(traceback.format_exception_only(error))
        stderr_tail.write_failure_file(
            path, f"{replica}: torchrun failed before or beside its ranks", lines
        )


if __name__ == "__main__":
    sys.exit(main())
