"""The connection that `targets.slurm.door` names."""

from __future__ import annotations

from rsctl.clients.endpoints import Endpoints
from rsctl.targets.slurm.cluster import Cluster


def open_cluster(door: str, endpoints: Endpoints) -> Cluster:
    """A connection; makes no call. Raises RsctlError if the environment is incomplete."""
    from rsctl.targets.slurm.commands import CommandCluster, run_locally, ssh_runner

    scheme, _, rest = door.partition("://")
    if door == "local":
        return CommandCluster(door, run_locally, is_local=True)
    if scheme == "ssh":
        return CommandCluster(door, ssh_runner(rest), is_local=False)
    from rsctl.targets.slurm.rest import RestCluster

    if scheme == "vertex":
        from rsctl.targets.slurm.vertex_requests import VertexRequests

        return RestCluster(door, VertexRequests(rest, endpoints))
    from rsctl.targets.slurm.rest_requests import RestRequests

    return RestCluster(door, RestRequests(door.rstrip("/")))
