"""Keeps torch.compile out of methods that are written in Python."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch

_kept_out: list[tuple[type, tuple[str, ...]]] = []


def keep_out(cls: type, names: Iterable[str]) -> None:
    """Have torch.compile call these methods of a class as they are, instead of tracing into them.

    Dynamo treats a process group as an opaque object, and refuses its attributes. Importing Dynamo
    takes seconds: this function does not import it unless the script has; `torch.compile` does it
    later.
    """
    _kept_out.append((cls, tuple(names)))
    if "torch._dynamo" in sys.modules:
        _disable_all()


def wrap_compile(real: Callable[..., Any]) -> Callable[..., Any]:
    """A `torch.compile` that keeps out of what `keep_out` has named."""

    @functools.wraps(real)
    def compile(*args: Any, **kwargs: Any) -> Any:
        _disable_all()
        return real(*args, **kwargs)

    return compile


def _disable_all() -> None:
    while _kept_out:
        cls, names = _kept_out.pop()
        for name in names:
            setattr(cls, name, torch.compiler.disable(getattr(cls, name)))  # type: ignore[no-untyped-call]
