"""The contract of a platform: how a node reads its cluster, starts and ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rsctl.node.cluster import Cluster


class Platform:
    """How nodes start and end on one platform; what a platform does not say is as on this machine.

    `peer_timeout` is how long, in seconds, a node waits for the others to start. `names_nodes` is
    whether a log line does not name its node, so that each node begins with a line that does. Where
    a job has ended only when all of its containers have, reducers and others are
    `stopped_by_workers`. `sets_tf_config` is whether the platform sets a TF_CONFIG of its own.
    """

    peer_timeout: float = 300
    names_nodes = False
    stopped_by_workers = False
    sets_tf_config = False

    def is_here(self, environ: Mapping[str, str]) -> bool:
        """Whether this node is one of its nodes, where RSCTL_TARGET does not say so."""
        raise NotImplementedError

    def read(self, environ: Mapping[str, str]) -> Cluster:
        """The cluster. Raises LaunchError if there is no contract, or if it makes no sense."""
        raise NotImplementedError

    def arguments(self, given: Sequence[str], environ: Mapping[str, str]) -> list[str]:
        """The arguments of rsctl-launch, or those that they refer to. Raises LaunchError."""
        return list(given)

    def defaults(self, cluster: Cluster, environ: Mapping[str, str]) -> dict[str, str]:
        """Variables for what the node starts, unless they are set. Raises LaunchError."""
        return {}

    def settings(self, cluster: Cluster, environ: Mapping[str, str]) -> dict[str, str]:
        """Variables for what the node starts, in the place of those that are set."""
        return {}

    def failure_file(self, environ: Mapping[str, str]) -> str | None:
        """Where the platform reads why a node has failed; None if nowhere."""
        return None

    def stops_with_workers(self, role: str, environ: Mapping[str, str]) -> bool:
        """Whether a node of a role is stopped when the workers have ended."""
        return False

    def report_unhealthy(self, cluster: Cluster, environ: Mapping[str, str]) -> None:
        """Tell the platform that this node has failed the job's checks, where it wants to know."""
