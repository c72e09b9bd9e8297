"""Jobs of Slurm clusters: each is created once, and found again."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rsctl.clients.endpoints import Endpoints
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs.home import run_directory
from rsctl.targets.base import Unanswered
from rsctl.targets.managed.service import Unreachable, answer_of
from rsctl.targets.slurm.cluster import Cluster, Submitted
from rsctl.targets.slurm.connections import open_cluster
from rsctl.targets.slurm.directives import COMMENT
from rsctl.targets.slurm.job import SlurmJob
from rsctl.targets.slurm.job_address import JobAddress
from rsctl.targets.slurm.script import with_package

_TRIES = 2
_FIND_TRIES, _FIND_SECONDS = 5, 1.0


class SlurmService:
    """See JobService. Threads can share it.

    The run's ID is in the job's comment. Slurm does not refuse a second job with the same comment,
    so the batch script does: it claims the run's folder, and ends if another job has claimed it.
    """

    settled_after = 0.0

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints
        self._clusters: dict[str, Cluster] = {}

    def create(self, run: str, request: dict[str, Any]) -> str:
        """See JobService."""
        cluster, comment = self._cluster(request["connection"]), f"{COMMENT}{run}"
        script = with_package(request["script"], request["package"], read_payload(run))
        environ = {name: str(value) for name, value in request["environment"].items()}
        problem: Unanswered | None = None
        for _ in range(_TRIES):
            found = _find_again(cluster, comment, problem)
            if found is None:
                try:
                    found = cluster.submit(script, environ, run)
                except Unanswered as lost:
                    problem = lost
                    continue
            return _url(request, found, run)
        if found := _find_again(cluster, comment, problem):
            return _url(request, found, run)
        assert problem is not None  # noqa: S101 - each try has returned or failed
        raise problem

    def find(self, request: Mapping[str, Any], run: str) -> str | None:
        """See JobService."""
        if "connection" not in request:
            return None
        found = self._cluster(request["connection"]).find(f"{COMMENT}{run}")
        return _url(request, found, run) if found else None

    def open(self, url: str) -> SlurmJob:
        """See JobService."""
        address = JobAddress.of_url(url)
        return SlurmJob(address, self._cluster(address.connection))

    def _cluster(self, connection: str) -> Cluster:
        if connection not in self._clusters:
            self._clusters.setdefault(connection, open_cluster(connection, self._endpoints))
        return self._clusters[connection]


def payload_path(run: str) -> Path:
    """Where the package of a run is kept until it is sent."""
    return run_directory(run) / "package.b64"


def read_payload(run: str) -> str:
    """The package of a run. Raises RsctlError if it is gone."""
    try:
        return payload_path(run).read_text(encoding="ascii")
    except OSError as problem:
        message = f"cannot read the package of {run}: {problem.strerror}"
        raise RsctlError(
            ExitCode.ENVIRONMENT, error("package", message, "submit it again")
        ) from None


def _find_again(cluster: Cluster, comment: str, problem: Unanswered | None) -> Submitted | None:
    """The job, if it is there; after a lost answer it is looked for several times."""
    if problem is None:
        return answer_of(lambda: cluster.find(comment))
    for _ in range(_FIND_TRIES):
        with suppress(Unreachable, RsctlError):
            return cluster.find(comment)
        time.sleep(_FIND_SECONDS)
    raise problem


def _url(request: Mapping[str, Any], found: Submitted, run: str) -> str:
    folder = f"{str(request['shared']).rstrip('/')}/{run}"
    return JobAddress(request["connection"], found.cluster, found.id, folder).url
