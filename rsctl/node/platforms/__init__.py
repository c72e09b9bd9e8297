"""The platforms that rsctl-launch runs on, each in a module of its own."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # slurm_probe.py also runs where Python lacks modules that these need
    from rsctl.node.cluster import Cluster
    from rsctl.node.platforms.contract import Platform

LOCAL = "local"
"""The platform of rsctl's own targets, and of containers that were started by hand."""

PLATFORMS: Mapping[str, str] = {
    LOCAL: "rsctl.node.platforms.local",
    "vertex": "rsctl.node.platforms.vertex",
    "sagemaker": "rsctl.node.platforms.sagemaker",
    "slurm": "rsctl.node.platforms.slurm",
}
"""The module of each platform, whose `PLATFORM` is a `Platform`; the first that is here counts."""


def platform(name: str) -> Platform:
    """The platform of this name, which is a `Cluster.platform`."""
    found: Platform = import_module(PLATFORMS[name]).PLATFORM
    return found


def platform_of(environ: Mapping[str, str]) -> str:
    """The platform of this node: `local` for rsctl's own targets, and where there is no other.

    RSCTL_TARGET decides; without it, the first contract that is there.
    """
    target = environ.get("RSCTL_TARGET", "")
    if target in PLATFORMS:  # each node pays only for the contract of its own platform
        return target
    return next((name for name in PLATFORMS if platform(name).is_here(environ)), LOCAL)


def read_cluster(environ: Mapping[str, str]) -> Cluster:
    """The cluster as the contract of this node's platform describes it.

    Raises LaunchError if there is no contract, or if it makes no sense.
    """
    return platform(platform_of(environ)).read(environ)


def failure_file(environ: Mapping[str, str]) -> str | None:
    """Where this node's platform reads why it has failed; None if nowhere."""
    return platform(platform_of(environ)).failure_file(environ)
