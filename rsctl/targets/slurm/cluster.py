"""The contract of a connection to a cluster: what jobs and their files are asked for.

All calls raise `Unreachable` if the cluster gives no answer, and RsctlError with findings if it
refuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Optional, Protocol

from rsctl.findings import ExitCode, RsctlError, error


class Submitted(NamedTuple):
    """A job that the cluster has taken."""

    id: int
    cluster: str


class JobRecord(NamedTuple):
    """A job as slurmctld knows it. Times are seconds since 1970, None if Slurm names none.

    Of a heterogeneous job it is the first component, with the `nodes` of all components in Slurm's
    expression. `exit_code` is the code and the signal as `1:0`.
    """

    id: int
    state: str
    name: str = ""
    reason: str = ""
    comment: str = ""
    nodes: str = ""
    failed_node: str = ""
    submitted: Optional[float] = None
    started: Optional[float] = None
    ended: Optional[float] = None
    restarts: int = 0
    exit_code: str = "0:0"


class FileState(NamedTuple):
    """A file below a run's folder. `path` is relative to the folder."""

    path: str
    size: int


class Part(NamedTuple):
    """Bytes of a file that are wanted."""

    path: str
    offset: int
    size: int


class Cluster(Protocol):
    """A connection to a cluster."""

    connection: str

    def submit(self, script: str, environ: Mapping[str, str], name: str) -> Submitted:
        """Submit a batch script with these variables. Raises Unanswered if the answer was lost."""

    def find(self, comment: str) -> Submitted | None:
        """The first of the user's jobs with this comment that the controller still knows."""

    def job(self, job: int) -> JobRecord | None:
        """A job; None if neither the controller nor accounting knows it."""

    def cancel(self, job: int) -> None:
        """End a job with all of its components; one that has ended is left as it is."""

    def has_files(self, folder: str) -> bool:
        """Whether files of a run's folder can be read by this connection."""

    def files(self, folder: str) -> list[FileState] | None:
        """The log files of a run's folder and its file `states`; None if it does not exist."""

    def read(self, folder: str, parts: Iterable[Part]) -> dict[str, bytes]:
        """Bytes of files by their path; a file that no longer exists is left out."""

    def expected_start(self, job: int) -> float | None:
        """When Slurm expects a pending job to start, in seconds since 1970; None if unknown."""


def refused(code: str, message: str, remedy: str | None, path: str | None = None) -> RsctlError:
    """An error of a cluster."""
    return RsctlError(ExitCode.REFUSED, error(code, message, remedy, path))
