"""How a node's work has ended: the exit code, and what the platform and the log are told of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

from rsctl.runtime import lastwords, rank
from rsctl.runtime.cluster import LOCAL, Cluster
from rsctl.runtime.platforms import failure_file


def listen(
    launcher: str, cluster: Cluster, environ: Mapping[str, str]
) -> lastwords.LastWords | None:
    """What keeps the last words of this node's command, where the platform wants to have them.

    Of torchrun's ranks, rank.py keeps them.
    """
    if failure_file(environ) is None or (launcher == "torchrun" and cluster.role == "worker"):
        return None
    return lastwords.LastWords()


def conclude(
    ending: rank.Ending,
    said: str,
    launcher: str,
    cluster: Cluster,
    is_over: bool,
    environ: Mapping[str, str],
) -> int:
    """The node's exit code, once it is told how its command ended.

    `said` is what the command wrote last to stderr, `is_over` whether the workers had all gone.
    """
    if cluster.role == "reducer" and cluster.platform != LOCAL:
        return _conclude_reducer(ending, said, cluster, is_over, environ)
    if launcher == "once" and ending.is_failure:
        rank.report(ending, rank=cluster.index, local_rank=0)
        place = f"{cluster.replica}, rank {cluster.index},"
        tell_platform(environ, rank.failure(ending, place), said)
    return ending.code


def _conclude_reducer(
    ending: rank.Ending, said: str, cluster: Cluster, is_over: bool, environ: Mapping[str, str]
) -> int:
    """A reducer that was only stopped has not failed: its code must not hide who has."""
    if is_over or not ending.is_failure:
        return 0
    rank.report(ending, rank=None, local_rank=None)
    if environ.get("RSCTL_ON_REDUCER_LOSS") == "fallback":
        rank.emit("finding", _lost(ending, cluster))
        return 0
    tell_platform(environ, rank.failure(ending, cluster.replica), said)
    return ending.code


def _lost(ending: rank.Ending, cluster: Cluster) -> dict[str, object]:
    return {
        "severity": "warning",
        "code": "reducer-lost",
        "message": f"{rank.failure(ending, cluster.replica)}; the workers go on without reducers",
        "remedy": "See its log. With comm.on_reducer_loss: fail the job would have ended.",
    }


def tell_platform(environ: Mapping[str, str], head: str, said: str = "") -> None:
    """Leave the file in which the platform wants to be told why, if it does and none is there."""
    if path := failure_file(environ):
        lastwords.leave(path, head, said)


def forget_last(environ: Mapping[str, str]) -> None:
    """Remove what an attempt before this one has left on the same machine."""
    if path := failure_file(environ):
        with suppress(OSError):
            os.remove(path)
