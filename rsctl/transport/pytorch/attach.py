"""Wraps the functions of PyTorch that start and end process groups and set up DDP."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from rsctl.transport.pytorch import backend, compiling, ddp, idle, recording, sharded, shutdown
from rsctl.transport.pytorch.collectives import REDUCE_SCATTER_NAMES
from rsctl.transport.pytorch.outer import read_local_steps
from rsctl.transport.pytorch.settings import (
    BindingError,
    CommSettings,
    read_measure_settings,
    read_settings,
)
from rsctl.transport.pytorch.wrapping import replace_function, with_findings, with_users_line

_attached = False


def attach(environ: Mapping[str, str]) -> None:
    """Attach, once in a process. Raises BindingError if the environment makes no sense.

    Nothing is started and nothing connected before the script makes a process group.
    """
    global _attached
    if _attached or not dist.is_available():
        return
    comm = _settings(environ)
    recording.start(environ)
    _attached = True
    idle.watch()
    replace_function("init_process_group", lambda real: backend.wrap_init_process_group(real, comm))
    replace_function("destroy_process_group", shutdown.wrap_destroy_process_group)
    _replace_method("__init__", lambda real: ddp.wrap_constructor(real, comm))
    _replace_method("register_comm_hook", ddp.wrap_register_comm_hook)
    _replace_method("_register_builtin_comm_hook", ddp.wrap_register_builtin_comm_hook)
    _replace_method("join_hook", lambda real: ddp.wrap_join_hook(real, comm))
    if comm.local is not None:
        from rsctl.transport.pytorch import local_steps

        local_steps.start(comm)
    if comm.reducers:
        for name in REDUCE_SCATTER_NAMES:
            replace_function(name, sharded.with_notice)
        replace_function("all_reduce", lambda real: sharded.with_reducers(real, comm))
    if comm.backend == "rsctl" or comm.reducers:
        backend.register(comm)
        torch.compile = compiling.wrap_compile(torch.compile)
    shutdown.register_exit_handler(comm)


def _settings(environ: Mapping[str, str]) -> CommSettings:
    """The settings of the environment. A script that is measured takes no local steps."""
    comm, local = read_settings(environ), read_local_steps(environ)
    if local is None or read_measure_settings(environ) is not None:
        return comm
    if comm.compression not in ("none", "fp16", "bf16"):
        message = f"{comm.compression} compresses gradients, and local steps exchange parameters"
        raise BindingError("comm.compression", message, "Use none, fp16 or bf16.")
    return dataclasses.replace(comm, local=local)


def _replace_method(name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    real = inspect.getattr_static(DistributedDataParallel, name)
    setattr(
        DistributedDataParallel,
        name,
        with_users_line(functools.wraps(real)(with_findings(wrap(real)))),
    )
