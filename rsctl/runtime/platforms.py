"""What differs from platform to platform in how a node starts and ends, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rsctl.runtime.cluster import LOCAL, platform_of, sagemaker_path

_SAGEMAKER_FAILURE = "/opt/ml/output/failure"


@dataclass(frozen=True)
class Platform:
    """How nodes start and end on one platform.

    `patience` is how long, in seconds, a node waits for the others to be there: on Vertex each
    starts as soon as its machine is ready, and others may wait in a queue. `names_nodes` says that
    the log does not tell who wrote it, so that each node begins with a line that does. Where a job
    has ended only when all of its containers have, `reducers_end` by themselves.
    """

    patience: float
    names_nodes: bool
    reducers_end: bool


_PLATFORMS = {
    # The supervisor ends the reducers and reads every replica's own journal.
    LOCAL: Platform(patience=300, names_nodes=False, reducers_end=False),
    # The chief's exit ends the job, whatever else still runs.
    "vertex": Platform(patience=2700, names_nodes=True, reducers_end=False),
    "sagemaker": Platform(patience=600, names_nodes=True, reducers_end=True),
}


def platform(name: str) -> Platform:
    """The platform of this name, which is a `Cluster.platform`."""
    return _PLATFORMS[name]


def failure_file(environ: Mapping[str, str]) -> str | None:
    """Where this platform wants to be told why the node failed; None if nowhere."""
    if platform_of(environ) != "sagemaker":
        return None
    return sagemaker_path(environ, _SAGEMAKER_FAILURE)
