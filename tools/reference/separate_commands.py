"""Commands below one that takes arguments of its own, such as `rsctl history bisect`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from typer.main import get_command

_NAMES = {"gate": ("calibrate",), "history": ("add", "bisect")}


def separate_commands(group: str) -> dict[str, Any]:
    """The commands below a command, by name."""
    names = _NAMES.get(group, ())
    return {n: get_command(import_module(f"rsctl.cli.{group}_{n}").command) for n in names}
