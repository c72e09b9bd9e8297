"""Loads the binding to PyTorch into a script: by torch's autoload, or by a wrapper command."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping

import rsctl_start
from rsctl.node.errors import CONFIGURATION, ENVIRONMENT, LaunchError

FIRST_AUTOLOAD = (2, 5)
"""The first version of torch that loads the binding: the oldest in pyproject.toml."""

_PYTHON = [sys.executable, "-u"]


def require_autoload(environ: Mapping[str, str]) -> None:
    """Raises LaunchError where torch would silently not load the binding."""
    if environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0":
        raise LaunchError(
            CONFIGURATION,
            "binding-off",
            "reducers and comm: reach the script through torch's autoload, and "
            "TORCH_DEVICE_BACKEND_AUTOLOAD=0 disables it",
            "Remove the variable from run.env or from the image.",
        )
    found = _torch_version()
    if _is_old(found) and not _wants_smddp(environ):
        raise LaunchError(
            ENVIRONMENT,
            "binding-off",
            f"reducers and comm: reach the script through torch's autoload, which torch {found} "
            "does not have",
            "Use an image.base with torch 2.5 or later.",
        )


def wrap_command(command: list[str], environ: Mapping[str, str]) -> list[str]:
    """The command, started by run_with_binding.py where torch has no autoload.

    SageMaker's data parallel library ends at torch 2.4, which has no autoload. Raises LaunchError
    for a command that is not a Python script: it cannot load the library.
    """
    if not _wants_smddp(environ) or not _is_old(_torch_version()):
        return command
    if command[:2] != _PYTHON:
        raise LaunchError(
            CONFIGURATION,
            "binding-off",
            f"comm.backend: smddp reaches only Python scripts with torch {_torch_version()}",
            "Use run.script or run.module instead of run.command.",
        )
    _, *program = rsctl_start.command("rsctl.node.run_with_binding")
    return [*_PYTHON, *program, *command[2:]]


def _wants_smddp(environ: Mapping[str, str]) -> bool:
    return environ.get("RSCTL_COMM_BACKEND") == "smddp"


def _is_old(version: str) -> bool:
    return tuple(map(int, re.findall(r"\d+", version)[:2])) < FIRST_AUTOLOAD


def _torch_version() -> str:
    from importlib.metadata import version  # costs a launch that has no reducers 15 ms

    return version("torch")
