"""The information that nodes of a job with roles have about each other, on every platform.

RSCTL_ROLE_HOSTS has the addresses of all workers and of all replicas of the job's roles, in the
order of their numbers:

    {"worker": ["HOST:PORT", "HOST:PORT"], "ps": ["HOST:PORT"], "evaluator": ["HOST:PORT"]}

rsctl does not listen on these ports, so that the replica's own program can; but the first worker's
port is the port of the ranks' rendezvous, MASTER_PORT. Local targets set the variable, since they
alone know the ports; on clouds rsctl-launch makes it of the platform's contract.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from rsctl.node.cluster import Cluster

ROLE_HOSTS = "RSCTL_ROLE_HOSTS"
"""The variable that has them."""

STOPPED_ROLES = "RSCTL_STOPPED_ROLES"
"""The variable that names the roles, with commas, whose nodes end when the workers have ended.

It is there where a job has ended only when all of its containers have (liveness.py)."""

AWAITED_ROLES = "RSCTL_AWAITED_ROLES"
"""The variable that names the roles, with commas, whose ends the chief waits for; `worker` is the
other workers.

It is there where a job ends with its chief (awaited_roles.py)."""

_RANKS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE")
_TASKS = ("ps", "evaluator")
"""Roles that TensorFlow knows, beside workers and their chief."""


def role_variables(cluster: Cluster) -> dict[str, str]:
    """The variables about roles of a node; none in a job that has only workers and reducers."""
    if not cluster.role_hosts:
        return {}
    return {
        ROLE_HOSTS: json.dumps(cluster.role_hosts),
        "RSCTL_ROLE_INDEX": str(cluster.index),
        "RSCTL_ROLE_COUNT": str(len(cluster.role_hosts.get(cluster.role, cluster.reducers))),
    }


def without_ranks(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment without the variables of a rank, which some platforms set on all nodes."""
    return {name: value for name, value in environ.items() if name not in _RANKS}


def tf_config(cluster: Cluster) -> str | None:
    """TF_CONFIG in the form that TensorFlow documents, for a job with parameter servers or
    evaluators; None in other jobs, and on nodes that are not a task of TensorFlow.

    Source: tf.distribute.cluster_resolver.TFConfigClusterResolver.
    """
    workers = cluster.role_hosts.get("worker", ())
    tasks = {name: cluster.role_hosts[name] for name in _TASKS if name in cluster.role_hosts}
    if not tasks or cluster.role not in ("worker", *tasks):
        return None
    jobs = {"chief": workers[:1], **({"worker": workers[1:]} if workers[1:] else {}), **tasks}
    kind, index = cluster.role, cluster.index
    if kind == "worker":
        kind, index = ("worker", index - 1) if index else ("chief", 0)
    return json.dumps({"cluster": jobs, "task": {"type": kind, "index": index}})
