"""Fails a script whose process group lacks nodes of the job, and tells at the end which nodes have
done nothing for its training, or whether all have trained by themselves.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch.distributed as dist

from rsctl.transport.pytorch import exchanges, inspection, lost_peers
from rsctl.transport.pytorch.report import emit_finding, number, rank, write_line
from rsctl.transport.pytorch.settings import BindingError, CommSettings
from rsctl.transport.pytorch.wrapping import replace_function

EXPECTED_RANKS = "RSCTL_EXPECTED_RANKS"
"""The variable with the least number of ranks that the launcher has started in all."""

EXPECTED_NODES = "RSCTL_EXPECTED_NODES"
"""The variable with the number of workers, which are nodes, in the job."""

_CODE = "workers-apart"
_KEYS = "rsctl/nodes"  # of the group's store
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
_WRAP_REMEDY = (
    "Wrap the model in DistributedDataParallel, or reduce its gradients by torch.distributed."
)
_TRAINER_REMEDY = (
    "On nodes without GPUs, give TrainingArguments use_cpu=True: otherwise the Trainer of "
    "Transformers does not use the process group."
)
_SEPARATE_REMEDY = (
    "Use run.script with launcher torchrun, or give the script's own launcher the number of nodes, "
    "this node's number and the chief: NNODES, NODE_RANK, MASTER_ADDR, MASTER_PORT."
)
_WITHOUT = "or set reducers.count: 0."


class _Seen:
    """The activity of this process: how many default groups it formed, the ranks of the largest,
    whether one had all nodes, and whether the process trained.
    """

    groups = 0
    ranks = 0
    has_all_nodes = False
    trains = False


def watch() -> None:
    """See whether this process forms process groups, and whether its optimizers make steps."""
    replace_function("init_process_group", _wrap_init_process_group)
    lost_peers.watch()
    exchanges.watch()
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def stepped(*_: object) -> None:
        # It stays: PyTorch does not allow a hook to be removed while it calls them.
        _Seen.trains = True

    register_optimizer_step_post_hook(stepped)


def report(comm: CommSettings, operations: int) -> None:
    """Emit a warning where nodes did nothing; `operations` went over the reducers.

    A process that ends with an exception says nothing, nor does one that did nothing itself, such
    as a wrapper of the script, where another process of this node formed a group.
    """
    if getattr(sys, "last_value", None) is not None or lost_peers.failure() is not None:
        return
    expected = max(number(EXPECTED_RANKS), number("WORLD_SIZE"))
    if rank() != 0:
        return
    if not (_Seen.ranks or _Seen.trains):
        if expected > 1 and _is_alone_on_node():
            message = f"the job has {expected} ranks, and they formed no process group"
            emit_finding("warning", _CODE, f"{message}: each worked by itself", _GROUP_REMEDY)
    elif _Seen.ranks < expected:
        emit_finding("warning", _CODE, _apart(expected, comm), _group_remedy())
    elif comm.reducers and not operations:
        noun = "reducer" if comm.reducers == 1 else "reducers"
        why, remedy = _idle_cause(comm)
        message = f"no gradient reached the {comm.reducers} {noun}: {why}"
        emit_finding("warning", "reducers-idle", message, remedy)
    elif _Seen.trains and expected > 1 and not comm.reducers and exchanges.are_none():
        message = f"{expected} ranks formed a process group and exchanged nothing by it: each "
        is_trainer = "transformers.trainer" in sys.modules
        remedy = _TRAINER_REMEDY if is_trainer else _group_remedy(_WRAP_REMEDY)
        emit_finding("warning", _CODE, f"{message}trained by itself", remedy)


def _apart(expected: int, comm: CommSettings) -> str:
    formed = "was formed" if not _Seen.ranks else f"was formed, only of {_Seen.ranks}"
    text = f"{expected} workers, but no process group of {expected} ranks {formed}"
    text += ": they did not train together"
    return text + (", and no gradient reached the reducers" if comm.reducers else "")


def _group_remedy(otherwise: str = _GROUP_REMEDY) -> str:
    numbers = {"nodes": "GROUP_WORLD_SIZE", "local": "LOCAL_WORLD_SIZE"}
    values = {name: os.environ.get(variable, "N") for name, variable in numbers.items()}
    for modules, remedy in _GROUP_REMEDIES:
        if any(module in sys.modules for module in modules):
            return remedy.format(**values)
    return otherwise


def _idle_cause(comm: CommSettings) -> tuple[str, str]:
    """Why gradients go elsewhere, and the remedy."""
    from rsctl.transport.pytorch import ddp, sharded

    if "deepspeed" in sys.modules and not ddp.wrapped_models:
        return "DeepSpeed reduces them by itself", f"Train with DistributedDataParallel, {_WITHOUT}"
    if sharded.was_noticed:
        remedy = f"Use hybrid sharding or, from torch 2.7 on, all_reduce_hook, {_WITHOUT}"
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
        lost_peers.reset()
        if dist.is_initialized():
            _Seen.groups += 1
            _Seen.ranks = max(_Seen.ranks, dist.get_world_size())
            _note_group()
            _require_all_nodes()
        return result

    return init_process_group


def _require_all_nodes() -> None:
    """Raise BindingError if the default process group has no rank on some node of the job.

    Each rank notes its node in the group's store, and the one that comes last looks for all. What
    torchrun says of its own group needs no look.
    """
    nodes = number(EXPECTED_NODES)
    launched = (number("GROUP_WORLD_SIZE"), number("WORLD_SIZE"))
    if nodes < 2 or _Seen.has_all_nodes or launched == (nodes, dist.get_world_size()):
        return
    try:
        store = dist.distributed_c10d._get_default_store()
        # A launcher keeps its store over restarts, and a script may form one group after another.
        keys = f"{_KEYS}/{number('TORCHELASTIC_RESTART_COUNT')}/{_Seen.groups}"
        store.set(f"{keys}/{os.environ.get('RSCTL_REPLICA')}", "1")
        if store.add(keys, 1) != dist.get_world_size():
            return
        workers = [f"worker-{index}" for index in range(nodes)]
        present = [name for name in workers if store.check([f"{keys}/{name}"])]
    except Exception as problem:  # noqa: BLE001 - a store of the script's own, or one that has gone
        write_line(f"cannot see which nodes the process group has: {problem}")
        return
    _Seen.has_all_nodes = len(present) == nodes
    if not _Seen.has_all_nodes:
        ranks = dist.get_world_size()
        message = f"the process group has {ranks} rank{'s' * (ranks > 1)} on "
        message += f"{', '.join(present[:3]) or 'no worker'}{', ...' * (len(present) > 3)} only, "
        message += f"and the job has {nodes} nodes: they train separately"
        remedy = _group_remedy(_SEPARATE_REMEDY)
        separate = BindingError("workers.count", message, remedy, _CODE)
        lost_peers.fail(separate)
        raise separate


def _note_group() -> None:
    """Let the processes that have started this one know that it has joined others."""
    if mark := _joined_mark():
        mark.touch()


def _is_alone_on_node() -> bool:
    """Whether no process of this node has formed a group, where that can be known.

    torchrun itself, which imports torch and forms none, knows nothing of its script.
    """
    is_launcher = "torch.distributed.run" in sys.modules
    mark = _joined_mark()
    return not is_launcher and mark is not None and not mark.exists()


def _joined_mark() -> Path | None:
    """The file that is there once a process of this node has formed a group; None if no process
    of the node can know that.
    """
    folder = os.environ.get(inspection.DEBUG_DIR, "")
    return Path(folder, ".joined") if os.path.isdir(folder) else None
