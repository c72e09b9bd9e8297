"""SageMaker as a platform of nodes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from rsctl.node.cluster import Cluster
from rsctl.node.platforms import sagemaker_cluster
from rsctl.node.platforms.contract import Platform
from rsctl.node.platforms.sagemaker_cluster import RESOURCE_CONFIG, sagemaker_path
from rsctl.node.roles import STOPPED_ROLES

_FAILURE = "/opt/ml/output/failure"


class SageMakerPlatform(Platform):
    """A job has ended only when all of its containers have."""

    peer_timeout = 600
    names_nodes = True
    stopped_by_workers = True
    read = staticmethod(sagemaker_cluster.read)

    def is_here(self, environ: Mapping[str, str]) -> bool:
        """See Platform."""
        return os.path.exists(sagemaker_path(environ, RESOURCE_CONFIG))

    def arguments(self, given: Sequence[str], environ: Mapping[str, str]) -> list[str]:
        """See Platform. Arguments that are too long for a request come as hyperparameters."""
        from rsctl.node.launch_arguments import read_arguments

        return read_arguments(given, environ)

    def defaults(self, cluster: Cluster, environ: Mapping[str, str]) -> dict[str, str]:
        """The variables that SageMaker's own toolkit sets."""
        from rsctl.node.platforms import sagemaker_env

        # Every container has the same host name there, by which NCCL would take all for one node.
        own = {"NCCL_HOSTID": cluster.own_host}
        if cluster.role == "reducer":
            return own
        return own | sagemaker_env.variables(cluster, environ)

    def failure_file(self, environ: Mapping[str, str]) -> str | None:
        """The file that SageMaker copies into the job's FailureReason."""
        return sagemaker_path(environ, _FAILURE)

    def stops_with_workers(self, role: str, environ: Mapping[str, str]) -> bool:
        """Whether the request names the role: SageMaker itself waits for all roles."""
        return role in environ.get(STOPPED_ROLES, "").split(",")


PLATFORM = SageMakerPlatform()
