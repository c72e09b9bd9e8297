"""What a node adds to the environment that its platform gave it. What is set already stays."""

from __future__ import annotations

from collections.abc import Mapping

from rsctl.runtime.cluster import LOCAL, Cluster
from rsctl.runtime.platforms import failure_file, platform
from rsctl.runtime.rank import FAILURE_FILE
from rsctl.runtime.settings import number


def of_node(cluster: Cluster, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of what this node starts: who it is, and what its platform needs besides.

    Pools of a cloud share one environment, so that only the node itself can say who it is. Raises
    Refusal if the platform's own files make no sense.
    """
    who = {"RSCTL_ROLE": cluster.role, "RSCTL_REPLICA": cluster.replica}
    if cluster.platform == LOCAL:
        return {**environ, **who}
    defaults = {"RSCTL_TARGET": cluster.platform}
    if cluster.platform == "sagemaker":
        from rsctl.runtime import sagemaker_env

        # Every container has the same host name there, by which NCCL would take all for one node.
        defaults["NCCL_HOSTID"] = cluster.own_host
        if cluster.role == "worker":
            defaults |= sagemaker_env.variables(cluster, environ)
    path = failure_file(environ)
    return {**defaults, **environ, **who, **({FAILURE_FILE: path} if path else {})}


def patience(cluster: Cluster, environ: Mapping[str, str]) -> float:
    """Seconds that this node waits for the others to be there. Raises Refusal."""
    return number(environ, "RSCTL_RESOLVE_SECONDS", platform(cluster.platform).patience)
