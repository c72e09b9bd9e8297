"""Tells at the end which nodes of a job have done nothing for its training."""

from __future__ import annotations

import atexit
import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

import torch.distributed as dist

from rsctl.transport.pytorch.report import emit_finding, number, rank
from rsctl.transport.pytorch.settings import CommSettings
from rsctl.transport.pytorch.wrapping import replace_function

EXPECTED_RANKS = "RSCTL_EXPECTED_RANKS"
"""The variable with the least number of ranks that the launcher has started in all."""

_LIGHTNING = ("lightning", "pytorch_lightning", "lightning_fabric")
_GROUP_REMEDIES = (
    (
        _LIGHTNING,
        "Give Lightning's Trainer or Fabric num_nodes={nodes}, devices={local} and strategy='ddp'.",
    ),
    (("deepspeed",), "Call deepspeed.initialize() or deepspeed.init_distributed() on all ranks."),
    (
        ("accelerate",),
        "Pass model and optimizer through Accelerator.prepare(); the script's own launcher must "
        "get the number of nodes and their rank.",
    ),
)
_GROUP_REMEDY = (
    "Call torch.distributed.init_process_group() and wrap the model in DistributedDataParallel, "
    "or set workers.count: 1."
)
_WITHOUT = "or set reducers.count: 0."


class _Seen:
    """The activity of this process: the size of its largest process group, and whether it
    trained.
    """

    ranks = 0
    trains = False


def watch() -> None:
    """See whether this process forms process groups, and whether its optimizers make steps."""
    replace_function("init_process_group", _wrap_init_process_group)
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def stepped(*_: object) -> None:
        # It stays: PyTorch does not allow a hook to be removed while it calls them.
        _Seen.trains = True

    register_optimizer_step_post_hook(stepped)


def report_at_exit() -> None:
    """Arrange for `report` when the script has ended."""
    atexit.register(report, CommSettings(), 0)


def report(comm: CommSettings, operations: int) -> None:
    """Emit a warning where nodes did nothing; `operations` went over the reducers.

    A process that neither trained nor joined others, such as a wrapper of the script, says nothing,
    nor does one that ends with an exception.
    """
    if not (_Seen.ranks or _Seen.trains) or getattr(sys, "last_value", None) is not None:
        return
    expected = max(number(EXPECTED_RANKS), number("WORLD_SIZE"))
    if rank() != 0:
        return
    if _Seen.ranks < expected:
        emit_finding("warning", "workers-apart", _apart(expected, comm), _group_remedy())
    elif comm.reducers and not operations:
        noun = "reducer" if comm.reducers == 1 else "reducers"
        why, remedy = _idle_cause(comm)
        message = f"no gradient reached the {comm.reducers} {noun}: {why}"
        emit_finding("warning", "reducers-idle", message, remedy)


def _apart(expected: int, comm: CommSettings) -> str:
    formed = "was formed" if not _Seen.ranks else f"was formed, only of {_Seen.ranks}"
    text = f"{expected} workers, but no process group of {expected} ranks {formed}"
    text += ": they did not train together"
    return text + (", and no gradient reached the reducers" if comm.reducers else "")


def _group_remedy() -> str:
    numbers = {"nodes": "GROUP_WORLD_SIZE", "local": "LOCAL_WORLD_SIZE"}
    values = {name: os.environ.get(variable, "N") for name, variable in numbers.items()}
    for modules, remedy in _GROUP_REMEDIES:
        if any(module in sys.modules for module in modules):
            return remedy.format(**values)
    return _GROUP_REMEDY


def _idle_cause(comm: CommSettings) -> tuple[str, str]:
    """Why gradients go elsewhere, and the remedy."""
    from rsctl.transport.pytorch import ddp, sharded

    if "deepspeed" in sys.modules and not ddp.wrapped_models:
        return "DeepSpeed reduces them by itself", f"Train with DistributedDataParallel, {_WITHOUT}"
    if sharded.was_noticed:
        remedy = f"Use all_reduce_hook between nodes, {_WITHOUT}"
        return "sharded gradients (FSDP) are exchanged without reducers", remedy
    if ddp.wrapped_models:
        remedy = f"Remove the hook, set comm.backend: rsctl, {_WITHOUT}"
        return "a hook of the script reduces them, or the script ran no step", remedy
    if comm.backend == "rsctl":
        return "the script called no all-reduce that reducers support", "Set reducers.count: 0."
    remedy = "Wrap the model in DistributedDataParallel, set comm.backend: rsctl"
    if "accelerate" in sys.modules:
        remedy = "Pass the model through Accelerator.prepare(), set comm.backend: rsctl"
    return "the script made no DistributedDataParallel", f"{remedy}, {_WITHOUT}"


def _wrap_init_process_group(real: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(real)

    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        call = signature.bind(*args, **kwargs)
        result = real(*call.args, **call.kwargs)
        if dist.is_initialized():
            _Seen.ranks = max(_Seen.ranks, dist.get_world_size())
        return result

    return init_process_group
