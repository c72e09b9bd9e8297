"""Slurm as a platform of nodes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

from rsctl.node.cluster import Cluster
from rsctl.node.platforms import slurm_cluster
from rsctl.node.platforms.contract import Platform


class SlurmPlatform(Platform):
    """The job's batch script starts all nodes, and stops the others when the workers have ended."""

    names_nodes = True
    read = staticmethod(slurm_cluster.read)

    def is_here(self, environ: Mapping[str, str]) -> bool:
        """See Platform."""
        return slurm_cluster.NODES in environ

    def report_unhealthy(self, cluster: Cluster, environ: Mapping[str, str]) -> None:
        """See Platform. The batch script reads the file, so that rsctl can exclude the node."""
        node = slurm_cluster.entries(environ)[cluster.role][cluster.index].node
        if environ.get(slurm_cluster.LOGS):
            path = os.path.join(environ[slurm_cluster.LOGS], slurm_cluster.UNHEALTHY_FILE)
            with suppress(OSError), open(path, "a", encoding="utf-8") as file:
                file.write(f"{node}\n")


PLATFORM = SlurmPlatform()
