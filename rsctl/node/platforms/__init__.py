"""Differences between platforms: how a node reads its cluster, starts and ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rsctl.node.cluster import LOCAL, Cluster, platform_of, sagemaker_path

_SAGEMAKER_FAILURE = "/opt/ml/output/failure"


@dataclass(frozen=True)
class Platform:
    """How nodes start and end on one platform.

    `peer_timeout` is how long, in seconds, a node waits for the others to start: on Vertex each
    starts as soon as its machine is ready, and others may wait in a queue. `names_nodes` is whether
    a log line does not name its node, so that each node begins with a line that does. Where a job
    has ended only when all of its containers have, reducers and others are `stopped_by_workers`.
    """

    peer_timeout: float
    names_nodes: bool
    stopped_by_workers: bool


_PLATFORMS = {
    # The supervisor ends the reducers and reads every replica's own journal.
    LOCAL: Platform(peer_timeout=300, names_nodes=False, stopped_by_workers=False),
    # The chief's exit ends the job, even if other replicas still run.
    "vertex": Platform(peer_timeout=2700, names_nodes=True, stopped_by_workers=False),
    "sagemaker": Platform(peer_timeout=600, names_nodes=True, stopped_by_workers=True),
}


def platform(name: str) -> Platform:
    """The platform of this name, which is a `Cluster.platform`."""
    return _PLATFORMS[name]


def read_cluster(environ: Mapping[str, str]) -> Cluster:
    """The cluster as the contract of this node's platform describes it.

    Raises LaunchError if there is no contract, or if it makes no sense.
    """
    # Each node pays only for the contract of its own platform.
    name = platform_of(environ)
    if name == "vertex":
        from rsctl.node.platforms import vertex as cluster_vertex

        return cluster_vertex.read(environ)
    if name == "sagemaker":
        from rsctl.node.platforms import sagemaker as cluster_sagemaker

        return cluster_sagemaker.read(environ)
    from rsctl.node.platforms import local as cluster_local

    return cluster_local.read(environ)


def failure_file(environ: Mapping[str, str]) -> str | None:
    """Where this platform reads why a node has failed; None if nowhere."""
    if platform_of(environ) != "sagemaker":
        return None
    return sagemaker_path(environ, _SAGEMAKER_FAILURE)
