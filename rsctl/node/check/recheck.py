"""Proves the image's transport again on the node, while the job is starting.

What the build has proven, the node may undo: a platform puts libraries of its own into the
container, and `run.env` may set what no build has seen. It runs beside the start, in a process of
its own, so that no job starts later for it: torchrun needs seconds until NCCL wants its plugin.

It ends the job only where the transport cannot work at all: no plugin, one that NCCL does not take
or the loader cannot load, or no module. The job would continue with plain sockets, slow and
expensive, contrary to the job file. All else is a warning here: where a platform's own plugin comes
before the image's, or a slow disk takes its time, the job may well be as it should be.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Mapping

import rsctl
import rsctl_start
from rsctl.node import rank
from rsctl.node.errors import LaunchError
from rsctl.node.structured_lines import emit, warning

FATAL = frozenset({"plugin-missing", "plugin-abi", "plugin-load", "transport-missing"})
"""Codes of findings that end the job."""

_FILE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(rsctl.__file__))), "transport")
_END = b"!"
_TIMEOUT_SECONDS = 10.0


class Recheck:
    """A running proof. It ends this process by SIGTERM if the job must end.

    `verdict` is the end of a pipe from which that can be read.
    """

    def __init__(self, verdict: int) -> None:
        self._verdict = verdict

    def must_end(self) -> bool:
        """Whether the job must end, as far as is known now."""
        readable, _, _ = select.select([self._verdict], [], [], 0)
        return bool(readable) and os.read(self._verdict, 1) == _END

    def wait(self) -> None:
        """Give it a few seconds to end, so that a job that fails has its findings in the log."""
        select.select([self._verdict], [], [], _TIMEOUT_SECONDS)


def image_transport() -> str:
    """The transport that the build has put into this image; `none` for other images."""
    try:
        with open(_FILE, encoding="utf-8") as file:
            return file.read(80).strip()
    except (OSError, ValueError):
        return "none"


def start_recheck(transport: str, environ: Mapping[str, str]) -> Recheck | None:
    """Start the proof of a transport, which ends with this process; None if nothing is to prove."""
    if transport == "none":
        return None
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    command = [*rsctl_start.command("rsctl.node.check.recheck"), transport]
    os.posix_spawn(
        sys.executable,
        [*command, str(writer), str(os.getpid())],
        environ,
        setpgroup=0,  # What is meant for our group is not meant for it.
    )
    os.close(writer)
    return Recheck(reader)


def main(transport: str, verdict: int, parent: int) -> None:
    """Print what is wrong as `finding` lines, and have the parent end if the job must."""
    # The parent does without these, and would start later for them.
    from rsctl.node.check.proof import prove
    from rsctl.node.check.transports import TRANSPORTS

    rank.die_with_parent(signal.SIGKILL, parent)
    if transport not in TRANSPORTS:
        message = f"{_FILE} names the transport {transport!r}, which this version does not have"
        emit("finding", warning("transport-unknown", message, "Build the image again."))
        return
    try:
        proof = prove(TRANSPORTS[transport], os.environ)
    except LaunchError as error:
        emit("finding", error.finding())
        _end(verdict, parent)
        return
    errors = {finding.code for finding in proof.findings if finding.is_error}
    for finding in proof.findings:
        is_tolerable = finding.is_error and finding.code not in FATAL
        shown = finding._replace(severity="warning") if is_tolerable else finding
        emit("finding", shown._asdict())
    if errors & FATAL:
        _end(verdict, parent)
    elif not errors:
        os.write(1, f"rsctl: transport {transport}: {proof.proven}\n".encode())


def _end(verdict: int, parent: int) -> None:
    os.write(verdict, _END)
    os.kill(parent, signal.SIGTERM)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
