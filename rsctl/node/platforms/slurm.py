"""Slurm as a platform of nodes."""

from __future__ import annotations

from collections.abc import Mapping

from rsctl.node.cluster import Cluster
from rsctl.node.platforms import slurm_cluster
from rsctl.node.platforms.contract import Platform


class SlurmPlatform(Platform):
    """The job's batch script starts all nodes, and stops the others when the workers have ended."""

    names_nodes = True

    def is_here(self, environ: Mapping[str, str]) -> bool:
        """See Platform."""
        return slurm_cluster.NODES in environ

    def read(self, environ: Mapping[str, str]) -> Cluster:
        """See Platform."""
        return slurm_cluster.read(environ)


PLATFORM = SlurmPlatform()
