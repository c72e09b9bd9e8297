"""Put the binding in front of the few functions of PyTorch through which every script goes."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from rsctl.transport.pytorch import backend, ddp, ending, sharded
from rsctl.transport.pytorch.collectives import REDUCE_SCATTER_NAMES
from rsctl.transport.pytorch.report import refuse
from rsctl.transport.pytorch.settings import BindingError, read

_attached = False


def attach(environ: Mapping[str, str]) -> None:
    """Attach, once in a process. Raises BindingError if the environment makes no sense.

    Nothing is started and nothing connected before the script makes a process group.
    """
    global _attached
    if _attached or not dist.is_available():
        return
    wishes = read(environ)
    _attached = True
    _replace_function("init_process_group", lambda real: backend.initializer(real, wishes))
    _replace_function("destroy_process_group", ending.destroyer)
    _replace_method("__init__", lambda real: ddp.constructor(real, wishes))
    _replace_method("register_comm_hook", ddp.registrar)
    _replace_method("_register_builtin_comm_hook", ddp.builtin_registrar)
    if wishes.reducers:
        for name in REDUCE_SCATTER_NAMES:
            _replace_function(name, sharded.teller)
    if wishes.backend == "rsctl" or wishes.reducers:
        backend.register(wishes)
    ending.at_exit(wishes)


def loudly(function: Callable[..., Any]) -> Callable[..., Any]:
    """Tell a BindingError in a line of its own before it becomes the script's."""

    @functools.wraps(function)
    def told(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except BindingError as error:
            raise refuse(error) from error.__cause__

    return told


def _replace_function(name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace a function of torch.distributed wherever torch has already imported it."""
    real = getattr(dist, name)
    replacement = functools.wraps(real)(loudly(wrap(real)))
    for module in [m for key, m in sys.modules.items() if key.startswith("torch.distributed")]:
        if getattr(module, "__dict__", {}).get(name) is real:
            setattr(module, name, replacement)


def _replace_method(name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    real = inspect.getattr_static(DistributedDataParallel, name)
    setattr(DistributedDataParallel, name, functools.wraps(real)(loudly(wrap(real))))
