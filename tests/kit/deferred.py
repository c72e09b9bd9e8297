"""Modules that are imported where a test first uses them.

Each of pytest's workers imports all test files to collect their tests, and runs a part of them:
what takes long to import at the top of a file is paid by all workers.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Deferred:
    """Stands for the module `name`: `deferred.x` imports it and is its `x`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, member: str) -> Any:
        if member.startswith("_"):  # pytest asks everything in a test file for its marks
            raise AttributeError(member)
        return getattr(import_module(self._name), member)
