"""One node's part of a job, from the platform's contract to the exit code of its command."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Mapping
from types import FrameType
from typing import NoReturn

from rsctl.runtime import processes, rank, work
from rsctl.runtime.check.recheck import Recheck, image_transport, start_recheck
from rsctl.runtime.cluster import Cluster
from rsctl.runtime.peers import meet, wait_for_names
from rsctl.runtime.refusal import ENVIRONMENT, Refusal
from rsctl.runtime.settings import number
from rsctl.runtime.shape import Network, shape
from rsctl.runtime.telemetry import start_telemetry

_RESOLVE_SECONDS = 300
_TELEMETRY_SECONDS = 10


def main(options: argparse.Namespace) -> int:
    """Run this node's part of the job and return the exit code of its command.

    Where the job cannot start, a `finding` line says why; refusal.py has the exit codes.
    """
    try:
        return _launch(options, os.environ)
    except Refusal as refusal:
        rank.emit("finding", refusal.finding())
        return refusal.exit_code


def _launch(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    _end_on_stop_signals()
    if environ.get("RSCTL_TARGET") == "process":
        _end_with_supervisor(environ)
    cluster = Cluster.from_env(environ)
    job = _work(cluster, options, environ)
    recheck = start_recheck(image_transport(), environ) if cluster.role == "worker" else None
    try:
        code = _run(cluster, job, recheck, options, environ)
    except SystemExit:
        if recheck is None or not recheck.says_end():
            raise
        return ENVIRONMENT
    return ENVIRONMENT if recheck is not None and recheck.says_end() else code


def _run(
    cluster: Cluster,
    job: work.Work,
    recheck: Recheck | None,
    options: argparse.Namespace,
    environ: Mapping[str, str],
) -> int:
    telemetry_seconds = number(environ, "RSCTL_TELEMETRY_SECONDS", _TELEMETRY_SECONDS)
    shape(Network.from_env(environ), cluster.interface)
    _wait_for_peers(cluster, environ)

    processes.adopt_orphans()
    child = rank.start(job.argv, job.environ)
    start_telemetry(telemetry_seconds, _own_interface(cluster, environ))
    ending = rank.wait(child)
    if options.launcher == "once" and ending.is_failure:
        rank.report(ending, rank=cluster.index, local_rank=0)
    if recheck is not None and ending.is_failure:
        recheck.wait()
    processes.kill_descendants()
    return ending.code


def _wait_for_peers(cluster: Cluster, environ: Mapping[str, str]) -> None:
    limit = number(environ, "RSCTL_RESOLVE_SECONDS", _RESOLVE_SECONDS)
    wait_for_names(cluster.hosts, limit)
    if "RSCTL_READY" in environ:
        attempt, own = environ.get("RSCTL_ATTEMPT", ""), cluster.own_host
        meet(environ["RSCTL_READY"], attempt, own, cluster.hosts, limit)


def _work(cluster: Cluster, options: argparse.Namespace, environ: Mapping[str, str]) -> work.Work:
    if cluster.role == "reducer":
        return work.reducer(cluster, options.processes, environ)
    if options.launcher == "once":
        return work.once(cluster, options.command, environ)
    return work.torchrun(cluster, options.processes, options.command, environ)


def _own_interface(cluster: Cluster, environ: Mapping[str, str]) -> str | None:
    """The interface whose traffic is this replica's alone, if there is one."""
    return None if environ.get("RSCTL_TARGET") == "process" else cluster.interface


def _end_on_stop_signals() -> None:
    """End when told to, until there is a command to pass the signals on to.

    The kernel does not end a container's first process by a signal that it does not handle.
    """

    def end(signum: int, _: FrameType | None) -> NoReturn:
        sys.exit(128 + signum)

    for signum in rank.STOP_SIGNALS:
        signal.signal(signum, end)


def _end_with_supervisor(environ: Mapping[str, str]) -> None:
    """Be told to stop when the process that started this replica dies, even by SIGKILL."""
    supervisor = int(number(environ, "RSCTL_PARENT", os.getppid()))
    rank.die_with_parent(signal.SIGTERM, supervisor)
