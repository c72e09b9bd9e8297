"""The seconds that a script takes to save a checkpoint by `torch.save` to a path."""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from rsctl.transport.pytorch.report import emit, rank


def measure() -> None:
    """Have `torch.save` report its seconds, from the main thread of rank 0.

    Only calls with a path count: libraries call it for many small objects with open files.
    """
    torch: Any = sys.modules["torch"]
    real = torch.save
    replacement = _measured(real)
    for module in (torch, torch.serialization):
        if module.save is real:
            module.save = replacement


def _measured(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def save(obj: object, f: Any, *args: Any, **kwargs: Any) -> Any:
        began = time.monotonic()
        saved = real(obj, f, *args, **kwargs)
        is_main = threading.current_thread() is threading.main_thread()
        if rank() == 0 and is_main and isinstance(f, (str, os.PathLike)):
            emit("telemetry", {"checkpoint": {"seconds": round(time.monotonic() - began, 6)}})
        return saved

    return save
