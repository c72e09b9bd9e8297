"""Where jobs run. `get` finds a target by name and imports only that one."""

from __future__ import annotations

from importlib import import_module

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.targets.base import Target

MODULES = {
    "process": "rsctl.targets.local.process",
    "compose": "rsctl.targets.local.compose",
}


def get(name: str) -> Target:
    """The target of this name. Raises RsctlError if this version does not have it."""
    if name not in MODULES:
        known = ", ".join(MODULES)
        raise RsctlError(
            ExitCode.USAGE,
            error(
                "target", f"no target {name!r} in this version", f"use one of: {known}", "target"
            ),
        )
    target: Target = import_module(MODULES[name]).TARGET
    return target
