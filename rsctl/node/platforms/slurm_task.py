"""A task of a job on Slurm: starts one replica, and writes its log with the time of each line.

    python3 .../rsctl_start.py rsctl.node.platforms.slurm_task ROLE FIRST LOGS FOLDER -- COMMAND...

The replica's index is FIRST and the task's number in its step. LOGS/ROLE-INDEX.log gets each line
as `TIME TEXT`; it is appended to, and nothing else writes there. FOLDER is the working directory.

SIGURG stands for SIGTERM. Slurm sends a signal to all processes of a step, and no process minds a
SIGURG but this one, which passes one SIGTERM on to the command.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Mapping

from rsctl.node import rank
from rsctl.node.errors import LaunchError
from rsctl.node.platforms.slurm_cluster import LOGS, REPLICA, entries
from rsctl.node.soft_stop import SIGNALS_ALL
from rsctl.node.structured_lines import emit

_BLOCK = 1 << 16
_LONGEST_LINE = 1 << 20
STOPPED = "stopped"
"""The file of the replicas that have ended with a code other than 0 after a soft stop."""

_soft_stops: list[bool] = []
_DRAIN_SECONDS = 5.0
"""How long output is awaited of processes that have outlived the command."""


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    """Run the replica's command to its end; returns its exit code."""
    end = arguments.index("--")
    role, first, logs, folder = arguments[:end]
    index = int(first) + int(environ.get("SLURM_PROCID", "0"))
    log = os.open(
        os.path.join(logs, f"{role}-{index}.log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644
    )
    output, ours = os.pipe()
    reader = threading.Thread(target=copy_with_times, args=(output, log), daemon=True)
    try:
        _require_node(role, index, environ)
        os.chdir(folder)
    except (LaunchError, OSError) as problem:
        _fail(problem, log)
        return 3
    signal.signal(signal.SIGURG, lambda *_: None)  # not its default action, until it is awaited
    own = {**environ, REPLICA: f"{role} {index}", SIGNALS_ALL: "1", LOGS: logs}
    child = rank.start(arguments[end + 1 :], own, None, (ours, ours))
    os.close(ours)
    # Threads inherit the mask. A handler would not run while `rank.wait` waits.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGURG})
    threading.Thread(target=_pass_on_soft_stop, daemon=True).start()
    reader.start()
    status = rank.wait(child)
    reader.join(_DRAIN_SECONDS)
    if (_soft_stops or status.was_stopped) and status.code:
        # Slurm would kill the other workers, which may still write checkpoints, at another code.
        with open(os.path.join(logs, STOPPED), "a", encoding="utf-8") as file:
            file.write(f"{role}-{index} {status.code}\n")
        return 0
    return status.code


def _pass_on_soft_stop() -> None:
    signal.sigwait({signal.SIGURG})
    _soft_stops.append(True)
    os.kill(os.getpid(), signal.SIGTERM)


def _require_node(role: str, index: int, environ: Mapping[str, str]) -> None:
    """Raises LaunchError if Slurm has put this task on another node than its probe: the others
    have the address of that one.
    """
    node = environ.get("SLURMD_NODENAME")
    probed = [entry for entry in entries(environ).get(role, ()) if entry.number == index]
    if node and probed and probed[0].node != node:
        raise LaunchError(
            3,
            "cluster-moved",
            f"{role}-{index} was probed on {probed[0].node}, and started on {node}",
            "Submit the job again; if it happens again, report it with the job's script.",
        )


def _fail(problem: Exception, log: int) -> None:
    """Write the problem to the replica's log, as rsctl-launch writes its findings."""
    os.dup2(log, 1)
    if isinstance(problem, LaunchError):
        finding = problem.finding()
    else:
        finding = LaunchError(3, "folder", str(problem), "Check targets.slurm.shared.").finding()
    os.write(1, f"{_now()} ".encode())
    emit("finding", finding)


def copy_with_times(source: int, log: int) -> None:
    """Copy lines until the end of `source`, each with the time at which it came.

    A line is written by one call, so that no reader sees a part of it but at the log's end.
    """
    rest = b""
    while True:
        block = os.read(source, _BLOCK)
        *lines, rest = (rest + block).split(b"\n")
        if rest and (not block or len(rest) > _LONGEST_LINE):
            lines, rest = [*lines, rest], b""
        if lines:
            time_now = _now().encode()
            _write(log, b"".join(b"%b %b\n" % (time_now, line) for line in lines))
        if not block:
            return


def _write(log: int, text: bytes) -> None:
    while text:
        try:
            text = text[os.write(log, text) :]
        except OSError:  # a full disk costs lines, and not the job
            return


def _now() -> str:
    seconds, nanoseconds = divmod(time.time_ns(), 10**9)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{nanoseconds // 1000:06d}Z"


STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z ")
"""The beginning of a line that `copy_with_times` has written."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
