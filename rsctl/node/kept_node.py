"""A failed node stays for a while, so that its user can look into it: `limits.keep`.

Its ranks have ended by then: the container, its files, its memory and its GPUs are kept.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping

from rsctl.node import rank
from rsctl.node.structured_lines import emit, warning


class KeptNode:
    """Whether this node stays after its command, and for how many seconds at most."""

    def __init__(self, seconds: int, environ: Mapping[str, str]) -> None:
        self._seconds, self._environ = seconds, environ
        self.has_failed = False
        """Whether the command failed of its own, and not because the node was asked to stop."""

    def hold(self, replica: str, code: int) -> None:
        """Report the failure, and wait for the end of the time or for a stop signal."""
        if not self._seconds or not self.has_failed:
            return
        signal.pthread_sigmask(signal.SIG_BLOCK, rank.STOP_SIGNALS)
        key = self._environ.get(rank.EXIT_KEY)
        emit("kept", {"code": code, **({"key": key} if key else {})})
        emit("finding", self._finding(replica, code))
        end = time.monotonic() + self._seconds
        while (left := end - time.monotonic()) > 0:
            if signal.sigtimedwait(rank.STOP_SIGNALS, left) is not None:
                return

    def _finding(self, replica: str, code: int) -> dict[str, object]:
        until = time.strftime("%H:%M:%S UTC", time.gmtime(time.time() + self._seconds))
        run = self._environ.get("RSCTL_RUN", "RUN")
        message = f"{replica} failed with exit code {code}; its node is kept until {until}"
        remedy = f"look into it: {self._shell(run, replica)}; end it: rsctl cancel {run}"
        return warning("kept", message, remedy)

    def _shell(self, run: str, replica: str) -> str:
        job, node = self._environ.get("SLURM_JOB_ID"), self._environ.get("SLURMD_NODENAME")
        if self._environ.get("RSCTL_TARGET") == "slurm" and job and node:
            return f"srun --jobid={job} --overlap --nodelist={node} --pty bash"
        return f"rsctl shell {run} {replica}"
