"""Wraps the functions of PyTorch that start and end process groups and set up DDP."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from rsctl.transport.pytorch import backend, ddp, recording, sharded, shutdown
from rsctl.transport.pytorch.collectives import REDUCE_SCATTER_NAMES
from rsctl.transport.pytorch.report import report_error
from rsctl.transport.pytorch.settings import BindingError, read_settings

_attached = False


def attach(environ: Mapping[str, str]) -> None:
    """Attach, once in a process. Raises BindingError if the environment makes no sense.

    Nothing is started and nothing connected before the script makes a process group.
    """
    global _attached
    if _attached or not dist.is_available():
        return
    comm = read_settings(environ)
    recording.start(environ)
    _attached = True
    _replace_function(
        "init_process_group", lambda real: backend.wrap_init_process_group(real, comm)
    )
    _replace_function("destroy_process_group", shutdown.wrap_destroy_process_group)
    _replace_method("__init__", lambda real: ddp.wrap_constructor(real, comm))
    _replace_method("register_comm_hook", ddp.wrap_register_comm_hook)
    _replace_method("_register_builtin_comm_hook", ddp.wrap_register_builtin_comm_hook)
    if comm.reducers:
        for name in REDUCE_SCATTER_NAMES:
            _replace_function(name, sharded.with_notice)
    if comm.backend == "rsctl" or comm.reducers:
        backend.register(comm)
    shutdown.register_exit_handler(comm)


def with_findings(function: Callable[..., Any]) -> Callable[..., Any]:
    """Emit a finding for a BindingError before the script gets it."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except BindingError as error:
            raise report_error(error) from error.__cause__

    return wrapper


def _replace_function(name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace a function of torch.distributed wherever torch has already imported it."""
    real = getattr(dist, name)
    replacement = functools.wraps(real)(with_findings(wrap(real)))
    for module in [m for key, m in sys.modules.items() if key.startswith("torch.distributed")]:
        if getattr(module, "__dict__", {}).get(name) is real:
            setattr(module, name, replacement)


def _replace_method(name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    real = inspect.getattr_static(DistributedDataParallel, name)
    setattr(DistributedDataParallel, name, functools.wraps(real)(with_findings(wrap(real))))
