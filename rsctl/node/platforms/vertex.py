"""Vertex AI as a platform of nodes."""

from __future__ import annotations

from collections.abc import Mapping

from rsctl.node.cluster import Cluster
from rsctl.node.platforms import vertex_cluster
from rsctl.node.platforms.contract import Platform
from rsctl.node.roles import AWAITED_ROLES


class VertexPlatform(Platform):
    """The chief's exit ends the job, even if other nodes still run.

    Each node starts as soon as its machine is ready, and others may wait in a queue.
    """

    peer_timeout = 2700
    names_nodes = True
    sets_tf_config = True  # which calls roles what they are not
    read = staticmethod(vertex_cluster.read)

    def is_here(self, environ: Mapping[str, str]) -> bool:
        """See Platform."""
        return "CLUSTER_SPEC" in environ

    def settings(self, cluster: Cluster, environ: Mapping[str, str]) -> dict[str, str]:
        """NCCL's variables for the machine's own network."""
        if cluster.role != "worker":
            return {}
        from rsctl.node.platforms.vertex_nccl import nccl_variables

        return nccl_variables(environ)

    def stops_with_workers(self, role: str, environ: Mapping[str, str]) -> bool:
        """All but those that the chief waits for."""
        return role not in environ.get(AWAITED_ROLES, "").split(",")


PLATFORM = VertexPlatform()
