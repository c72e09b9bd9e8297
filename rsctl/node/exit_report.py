"""The exit of a node's command: the node's exit code, and what it reports to platform and log."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress

from rsctl.node import rank, stderr_tail
from rsctl.node.cluster import Cluster
from rsctl.node.platforms import LOCAL, failure_file, platform
from rsctl.node.structured_lines import emit, lock_of, report_end, warning

_WAKE_SECONDS = 5.0
"""In which a failure can be that of a program whose workers have just ended."""


def keep_stderr_tail(
    launcher: str, cluster: Cluster, environ: Mapping[str, str]
) -> stderr_tail.StderrTail | None:
    """Keeps the end of this command's stderr if the platform reads it as the reason of a failure.

    For torchrun's ranks, rank.py keeps it; mpirun's ranks write to the chief's.
    """
    if failure_file(environ) is None or (launcher == "torchrun" and cluster.role == "worker"):
        return None
    return stderr_tail.StderrTail()


def announce_start(cluster: Cluster, environ: Mapping[str, str]) -> str | None:
    """Print the node's first line, before anything that the job can print; returns the key.

    The key is new, and proves that an `exit` line is this launcher's. Its lock is in the line,
    beside the node's name where the platform does not give it. Without rsctl there is no key.
    """
    key = os.urandom(16).hex()
    lock = {"lock": lock_of(key)}
    if platform(cluster.platform).names_nodes:
        emit("node", {"replica": cluster.replica, "host": cluster.own_host, **lock})
    elif "RSCTL_TARGET" in environ:
        emit("exits", lock)
    else:
        return None
    return key


def report_exit(
    status: rank.ExitStatus,
    stderr: str,
    launcher: str,
    cluster: Cluster,
    workers_ended: bool,
    environ: Mapping[str, str],
) -> int:
    """Report how the command ended; returns the node's exit code.

    `stderr` is the end of what the command wrote there, `workers_ended` whether all workers had
    ended before.
    """
    is_supervised = cluster.role == "reducer" and cluster.platform == LOCAL
    if cluster.role != "worker" and not is_supervised:
        return _report_other_exit(status, stderr, cluster, workers_ended, environ)
    key = environ.get(rank.EXIT_KEY)
    is_early = key is not None and len(cluster.workers) > 1 and not status.was_stopped
    if launcher == "once" and (status.is_failure or is_early):
        report_end(status, cluster.index, 0, key)
    if launcher == "once" and status.is_failure:
        who = f"{cluster.replica}, rank {cluster.index},"
        write_failure(environ, stderr_tail.format_failure(status, who), stderr)
    if launcher == "mpi" and status.is_failure:
        failure = stderr_tail.format_failure(status, f"{cluster.replica}, mpirun,")
        write_failure(environ, failure, stderr)
    return status.code


def _report_other_exit(
    status: rank.ExitStatus,
    stderr: str,
    cluster: Cluster,
    workers_ended: bool,
    environ: Mapping[str, str],
) -> int:
    """Report the exit of a reducer in a cloud, or of a role's node.

    A replica that was stopped because the workers had ended has not failed, with any exit code, and
    a reducer that was only stopped has not: its code must not hide who has. Nor has a role's node
    that is about to be stopped: a program that loses connections to workers which are just ending
    often ends with an error. It is reported immediately anyway: workers may be ending because of
    it.
    """
    is_reducer = cluster.role == "reducer"
    if workers_ended or not status.is_failure:
        return 0 if workers_ended or is_reducer else status.code
    report_end(status, None, None, environ.get(rank.EXIT_KEY))
    failure = stderr_tail.format_failure(status, cluster.replica)
    if is_reducer and environ.get("RSCTL_ON_REDUCER_LOSS") == "fallback":
        message = f"{failure}; the workers continue without reducers"
        remedy = "See its log. With comm.on_reducer_loss: fail the job would have ended."
        emit("finding", warning("reducer-lost", message, remedy))
        return 0
    is_stopped = platform(cluster.platform).stops_with_workers(cluster.role, environ)
    if not is_reducer and is_stopped and _is_stopped_soon():
        return 0
    write_failure(environ, failure, stderr)
    return status.code


def _is_stopped_soon() -> bool:
    """Wait for a stop signal, which this node gets when the workers have ended.

    Such signals are blocked, as after `rank.start`.
    """
    return signal.sigtimedwait(rank.STOP_SIGNALS, _WAKE_SECONDS) is not None


def write_failure(environ: Mapping[str, str], head: str, stderr: str = "") -> None:
    """Write the file from which the platform reads why the node failed, unless it is there."""
    if path := failure_file(environ):
        stderr_tail.write_failure_file(path, head, stderr)


def remove_failure(environ: Mapping[str, str]) -> None:
    """Remove the failure file that an earlier attempt has left on the same machine."""
    if path := failure_file(environ):
        with suppress(OSError):
            os.remove(path)
