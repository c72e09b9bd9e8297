"""Replaces functions of torch.distributed by wrappers."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch.distributed as dist

from rsctl.transport.pytorch.collectives import REDUCE_SCATTER_NAMES
from rsctl.transport.pytorch.report import report_error
from rsctl.transport.pytorch.settings import BindingError

_HERE = os.path.dirname(__file__)

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


def with_findings(function: Callable[..., Any]) -> Callable[..., Any]:
    """Emit a finding for a BindingError before the script gets it."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except BindingError as error:
            raise report_error(error) from error.__cause__

    return wrapper


def with_users_line(function: Callable[..., Any]) -> Callable[..., Any]:
    """Attribute warnings about a call to the line that calls, and not to rsctl's wrapper.

    PyTorch counts frames to find its caller. For rare calls only: warnings of other threads are
    shown when the call has ended.
    """

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        caught: list[warnings.WarningMessage] = []
        try:
            with warnings.catch_warnings(record=True) as caught:
                return function(*args, **kwargs)
        finally:
            _warn_again(caught, sys._getframe(1))

    return wrapper


def warn_if_deprecated(function: Callable[..., Any], depth: int) -> Callable[..., Any]:
    """Warn of a function that PyTorch calls deprecated, for the caller `depth` frames up.

    Returns the function without the warning.
    """
    text = getattr(function, "__deprecated__", None)
    if not isinstance(text, str) or not hasattr(function, "__wrapped__"):
        return function
    warnings.warn(text, FutureWarning, stacklevel=depth + 1)
    found: Callable[..., Any] = inspect.unwrap(function)
    return found


def _warn_again(caught: list[warnings.WarningMessage], caller: FrameType) -> None:
    for warning in caught:
        if not warning.filename.startswith(_HERE):
            warnings.showwarning(
                warning.message, warning.category, warning.filename, warning.lineno
            )
            continue
        warnings.warn_explicit(
            warning.message,
            warning.category,
            caller.f_code.co_filename,
            caller.f_lineno,
            caller.f_globals.get("__name__"),
            caller.f_globals.setdefault("__warningregistry__", {}),
        )


def replace_function(name: str, wrap: Wrap) -> None:
    """Replace a function of torch.distributed wherever torch has already imported it."""
    real = getattr(dist, name)
    replacement: Callable[..., Any] = functools.wraps(real)(with_findings(wrap(real)))
    if name not in (*REDUCE_SCATTER_NAMES, "all_reduce"):
        replacement = with_users_line(replacement)
    for module in [m for key, m in sys.modules.items() if key.startswith("torch.distributed")]:
        if getattr(module, "__dict__", {}).get(name) is real:
            setattr(module, name, replacement)
