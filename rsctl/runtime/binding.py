"""How the binding to PyTorch reaches a script: by torch's autoload, or in front of the script."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping

from rsctl.runtime.refusal import CONFIGURATION, ENVIRONMENT, Refusal

_FIRST_AUTOLOAD = (2, 5)
_PYTHON = [sys.executable, "-u"]


def require(environ: Mapping[str, str]) -> None:
    """Raises Refusal where torch would not load the binding, which nothing else would notice."""
    if environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0":
        raise Refusal(
            CONFIGURATION,
            "binding-off",
            "reducers and comm: reach the script by torch's autoload, and "
            "TORCH_DEVICE_BACKEND_AUTOLOAD=0 turns that off",
            "Remove the variable from run.env or from the image.",
        )
    found = _torch_version()
    if _is_old(found) and not _wants_smddp(environ):
        raise Refusal(
            ENVIRONMENT,
            "binding-off",
            f"reducers and comm: reach the script by torch's autoload, which torch {found} "
            "does not have",
            "Take an image.base with torch 2.5 or later.",
        )


def attached(command: list[str], environ: Mapping[str, str]) -> list[str]:
    """The command, by way of attach.py where that must load the binding.

    SageMaker's data parallel library ends at torch 2.4, which has no autoload. Raises Refusal for
    a command that is no Python script, into which nothing can be loaded.
    """
    if not _wants_smddp(environ) or not _is_old(_torch_version()):
        return command
    if command[:2] != _PYTHON:
        raise Refusal(
            CONFIGURATION,
            "binding-off",
            f"comm.backend: smddp reaches only Python scripts with torch {_torch_version()}",
            "Use run.script or run.module in place of run.command.",
        )
    return [*_PYTHON, "-m", "rsctl.runtime.attach", *command[2:]]


def _wants_smddp(environ: Mapping[str, str]) -> bool:
    return environ.get("RSCTL_COMM_BACKEND") == "smddp"


def _is_old(version: str) -> bool:
    return tuple(map(int, re.findall(r"\d+", version)[:2])) < _FIRST_AUTOLOAD


def _torch_version() -> str:
    from importlib.metadata import version  # costs a launch that has no reducers 15 ms

    return version("torch")
