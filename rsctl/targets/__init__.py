"""Where jobs run. `get` finds a target by name and imports only that one."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from rsctl.targets.base import Target

if TYPE_CHECKING:
    from rsctl.targets.managed.target import ManagedTarget

MODULES = {
    "process": "rsctl.targets.local.process",
    "compose": "rsctl.targets.local.compose",
    "vertex": "rsctl.targets.vertex.target",
    "sagemaker": "rsctl.targets.sagemaker.target",
}
CLOUDS = frozenset({"vertex", "sagemaker"})


def get(name: str) -> Target:
    """The target of this name, one of `rsctl.spec.job.TARGETS`."""
    target: Target = import_module(MODULES[name]).TARGET
    return target


def in_cloud(url: str) -> ManagedTarget | None:
    """The cloud's target that a URL such as `vertex://PROJECT/REGION/ID` is of, if it is of one."""
    scheme, separator, _ = url.partition("://")
    if not separator or scheme not in CLOUDS:
        return None
    target: ManagedTarget = import_module(MODULES[scheme]).TARGET
    return target
