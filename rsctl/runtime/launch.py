"""`rsctl-launch`: a node's first process, from the platform's contract to the job's exit code.

Usage: rsctl-launch [--launcher torchrun|once] [--processes N] [--python] -- COMMAND...
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Mapping
from types import FrameType
from typing import NoReturn

from rsctl.runtime import processes, rank, work
from rsctl.runtime.cluster import Cluster
from rsctl.runtime.peers import meet, wait_for_names
from rsctl.runtime.refusal import Refusal
from rsctl.runtime.settings import number
from rsctl.runtime.shape import Network, shape
from rsctl.runtime.telemetry import start_telemetry

_RESOLVE_SECONDS = 300
_TELEMETRY_SECONDS = 10


def main(arguments: list[str] | None = None) -> int:
    """Run this node's part of the job and return the exit code of its command.

    Where the job cannot start, a `finding` line says why; refusal.py has the exit codes.
    """
    options = _parse(sys.argv[1:] if arguments is None else arguments)
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
    telemetry_seconds = number(environ, "RSCTL_TELEMETRY_SECONDS", _TELEMETRY_SECONDS)
    shape(Network.from_env(environ), cluster.interface)
    _wait_for_peers(cluster, environ)

    processes.adopt_orphans()
    child = rank.start(job.argv, job.environ)
    start_telemetry(telemetry_seconds, _own_interface(cluster, environ))
    ending = rank.wait(child)
    if options.launcher == "once" and ending.is_failure:
        rank.report(ending, rank=cluster.index, local_rank=0)
    processes.kill_descendants()
    return ending.code


def _wait_for_peers(cluster: Cluster, environ: Mapping[str, str]) -> None:
    limit = number(environ, "RSCTL_RESOLVE_SECONDS", _RESOLVE_SECONDS)
    wait_for_names(cluster.hosts, limit)
    if "RSCTL_READY" in environ:
        attempt, own = environ.get("RSCTL_ATTEMPT", ""), cluster.own_host
        meet(environ["RSCTL_READY"], attempt, own, cluster.hosts, limit)


def _parse(arguments: list[str]) -> argparse.Namespace:
    """The options, with the command as `command`."""
    parser = argparse.ArgumentParser(
        prog="rsctl-launch",
        usage="%(prog)s [options] -- COMMAND...",
        description="Run this node's part of a job.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--launcher",
        choices=("torchrun", "once"),
        default="torchrun",
        help="torchrun starts the command once for each rank, once starts it once a node",
    )
    parser.add_argument(
        "--processes", type=int, default=1, metavar="N", help="ranks on this node (torchrun)"
    )
    parser.add_argument(
        "--python", action="store_true", help="COMMAND is a script, or -m and a module"
    )
    # Split by hand: what argparse makes of `--` differs between versions of Python.
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:end])
    command = arguments[end + 1 :]
    if not command:
        parser.error("what to run? Give a COMMAND after --")
    if options.processes < 1 or (options.launcher == "once" and options.processes > 1):
        parser.error(f"--processes {options.processes} is not possible with {options.launcher}")
    options.command = [sys.executable, "-u", *command] if options.python else command
    return options


def _work(cluster: Cluster, options: argparse.Namespace, environ: Mapping[str, str]) -> work.Work:
    if cluster.role == "reducer":
        return work.reducer()
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


if __name__ == "__main__":
    sys.exit(main())
