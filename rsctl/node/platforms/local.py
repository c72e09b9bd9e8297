"""The machine that runs rsctl, and containers that learn of each other as its own do."""

from __future__ import annotations

from collections.abc import Mapping

from rsctl.node.platforms import local_cluster
from rsctl.node.platforms.contract import Platform


class LocalPlatform(Platform):
    """The supervisor ends the reducers, and reads every replica's own journal."""

    read = staticmethod(local_cluster.read)

    def is_here(self, environ: Mapping[str, str]) -> bool:
        """Also in a container that was started by hand, and of a target from another package."""
        return "RSCTL_CLUSTER" in environ or environ.get("RSCTL_TARGET") in ("process", "compose")


PLATFORM = LocalPlatform()
