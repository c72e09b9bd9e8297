"""The URL of a job: how its cluster is reached, the cluster's name, the job's ID and its folder.

    slurm://local/CLUSTER/17/shared/me/train-abcdef
    slurm://ssh:me@login1/CLUSTER/17/shared/me/train-abcdef
    slurm://http:ctl:6820/CLUSTER/17/shared/me/train-abcdef
    slurm://vertex:PROJECT:REGION:NAME/CLUSTER/17/shared/me/train-abcdef

IDs of jobs begin at 1 in each cluster, so that the ID alone does not name a job.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.targets.slurm.options import CONNECTION

_URL = re.compile(
    r"slurm://(?P<connection>[A-Za-z0-9][A-Za-z0-9._@:\[\]-]*)/(?P<cluster>[A-Za-z0-9_.-]+)/(?P<id>\d{1,10})"
    r"(?P<folder>/[A-Za-z0-9._/+@-]+)"
)


class JobAddress(NamedTuple):
    """A job. `folder` is the run's folder on the cluster; its last part is the run's ID."""

    connection: str
    cluster: str
    id: int
    folder: str

    @classmethod
    def of_url(cls, url: str) -> JobAddress:
        """Raises RsctlError if the text is not the URL of a job."""
        match = _URL.fullmatch(url)
        connection = _connection_of(match["connection"]) if match else ""
        if match is None or not re.fullmatch(CONNECTION, connection):
            message = f"{url[:200]!r} is not the URL of a Slurm job"
            example = "slurm://ssh:login1/CLUSTER/17/shared/me/train-abcdef"
            finding = error("url", message, f"use the URL that `rsctl status` shows: {example}")
            raise RsctlError(ExitCode.USAGE, finding)
        return cls(connection, match["cluster"], int(match["id"]), match["folder"])

    @property
    def run(self) -> str:
        """The ID of the run."""
        return self.folder.rpartition("/")[2]

    @property
    def url(self) -> str:
        """The URL."""
        scheme, separator, rest = self.connection.partition("://")
        shown = f"{scheme}:{rest.rstrip('/').replace('/', ':')}" if separator else scheme
        return f"slurm://{shown}/{self.cluster}/{self.id}{self.folder}"


def _connection_of(shown: str) -> str:
    """The value of `targets.slurm.connection` that a URL shows in one part."""
    scheme, separator, rest = shown.partition(":")
    if scheme == "vertex":
        # A project of a domain has a colon, as in example.com:project.
        return f"vertex://{'/'.join(rest.rsplit(':', 2))}"
    return f"{scheme}://{rest}" if separator else scheme
