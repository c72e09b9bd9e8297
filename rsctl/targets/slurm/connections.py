"""The connection that `targets.slurm.connection` names."""

from __future__ import annotations

from rsctl.clients.endpoints import Endpoints
from rsctl.targets.slurm.cluster import Cluster


def open_cluster(connection: str, endpoints: Endpoints) -> Cluster:
    """A connection; makes no call. Raises RsctlError if the environment is incomplete."""
    from rsctl.targets.slurm.commands import CommandCluster, run_locally, ssh_runner

    scheme, _, rest = connection.partition("://")
    if connection == "local":
        return CommandCluster(connection, run_locally, is_local=True)
    if scheme == "ssh":
        return CommandCluster(connection, ssh_runner(rest), is_local=False)
    from rsctl.targets.slurm.rest import RestCluster

    if scheme == "vertex":
        from rsctl.targets.slurm.vertex_requests import VertexRequests

        return RestCluster(connection, VertexRequests(rest, endpoints))
    from rsctl.targets.slurm.rest_requests import RestRequests

    return RestCluster(connection, RestRequests(connection.rstrip("/")))
