"""The environment variables that a node adds to those of its platform. What is set stays."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

from rsctl.node.cluster import Cluster
from rsctl.node.platforms import LOCAL, failure_file, platform
from rsctl.node.rank import FAILURE_FILE
from rsctl.node.roles import role_variables
from rsctl.node.settings import number

SOURCE_ROOTS = "RSCTL_SOURCE_ROOTS"
"""The variable with folders, below the working directory, that Python imports packages from."""

SLOTS = "RSCTL_SLOTS_"
"""The prefix of the variables with the slots of a packed job; their numbers follow, from 0."""

_WRITTEN = ("RSCTL_OUTPUT_DIR", "RSCTL_CHECKPOINT_DIR")


def node_environment(cluster: Cluster, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of what this node starts: its replica, and what its platform needs besides.

    Pools of a cloud share one environment, so that only the node itself knows its replica. Makes
    the folders that scripts write to. Raises LaunchError if the platform's own files
    make no sense.
    """
    replica = {"RSCTL_ROLE": cluster.role, "RSCTL_REPLICA": cluster.replica}
    replica |= role_variables(cluster) | _search_path(environ)
    if cluster.platform == LOCAL:
        return {**environ, **replica}
    here, defaults = platform(cluster.platform), {"RSCTL_TARGET": cluster.platform}
    if cluster.role != "reducer":
        _make_folders(environ)
    defaults |= here.defaults(cluster, environ)
    replica |= here.settings(cluster, environ)
    path = failure_file(environ)
    return {**defaults, **environ, **replica, **({FAILURE_FILE: path} if path else {})}


def _search_path(environ: Mapping[str, str]) -> dict[str, str]:
    """PYTHONPATH with the folders of the source that packages lie in, such as `src`, first."""
    roots = environ.get(SOURCE_ROOTS, "").split(":")
    found = [os.path.abspath(root) for root in roots if root and os.path.isdir(root)]
    if not found:
        return {}
    return {"PYTHONPATH": ":".join([*found, *filter(None, [environ.get("PYTHONPATH")])])}


def _make_folders(environ: Mapping[str, str]) -> None:
    """The folders that scripts write to, which are there on local targets."""
    for name in _WRITTEN:
        if environ.get(name):
            with suppress(OSError):  # a script that writes there fails with a better message
                os.makedirs(environ[name], exist_ok=True)


def peer_timeout(cluster: Cluster, environ: Mapping[str, str]) -> float:
    """Seconds that this node waits for the others to start. Raises LaunchError."""
    return number(environ, "RSCTL_RESOLVE_SECONDS", platform(cluster.platform).peer_timeout)
