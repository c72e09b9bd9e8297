"""Where jobs run. `get` finds a target by name and imports only that one."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rsctl.target_info import has_target, import_object, target_info

if TYPE_CHECKING:
    from rsctl.targets.base import AdoptingTarget, Target


def get(name: str) -> Target:
    """The target of this name. Raises RsctlError if there is none."""
    target: Target = import_object(target_info(name).target)
    return target


def in_cloud(url: str) -> AdoptingTarget | None:
    """The managed target that a URL such as `vertex://PROJECT/REGION/ID` is of, if it is of one."""
    name, separator, _ = url.partition("://")
    if not separator or not has_target(name) or not target_info(name).is_managed:
        return None
    return cast("AdoptingTarget", get(name))
