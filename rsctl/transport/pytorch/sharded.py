"""FSDP: hybrid sharding's all-reduce between nodes by the reducers, and a notice about the rest."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from rsctl.transport.pytorch.report import number, print_once
from rsctl.transport.pytorch.settings import BindingError, CommSettings, read_settings
from rsctl.transport.pytorch.wrapping import warn_if_deprecated

if TYPE_CHECKING:
    from rsctl.transport.pytorch.work import ReducerWork

_FSDP = ("torch.distributed.fsdp.", "torch.distributed._composable.fsdp.")
"""The packages of FSDP, and of FSDP2 before torch 2.6."""
_HYBRID = "sharded gradients (FSDP), all-reduce between nodes"
was_noticed = False
"""Whether the script has reduced sharded gradients."""


def with_notice(real: Callable[..., Any]) -> Callable[..., Any]:
    """A `reduce_scatter_single` that says once that reducers have no part in it."""

    def reduce_scatter(*args: Any, **kwargs: Any) -> Any:
        global was_noticed
        was_noticed = True
        print_once(
            "sharded gradients (FSDP): reduce-scatter and all-gather do not use reducers; only "
            "an all-reduce between nodes can use them (hybrid sharding, or all_reduce_hook)"
        )
        # Of `with_findings` and of here, the caller is the third.
        return warn_if_deprecated(real, 3)(*args, **kwargs)

    return reduce_scatter


def with_reducers(real: Callable[..., Any], comm: CommSettings) -> Callable[..., Any]:
    """A `torch.distributed.all_reduce` by the reducers where FSDP calls it between nodes.

    That is `ShardingStrategy.HYBRID_SHARD` of FSDP and a mesh of two dimensions of FSDP2, with all
    shards on each node. All ranks reduce their gradients then, so they open the session together;
    of a script's own all-reduce over some ranks that is unknown, and it stays as it is.
    """
    signature = inspect.signature(real)

    def all_reduce(*args: Any, **kwargs: Any) -> Any:
        # Of `with_findings` and of here, the caller is the third.
        caller = sys._getframe(2).f_globals.get("__name__", "")
        if not caller.startswith(_FSDP):
            return real(*args, **kwargs)
        call = signature.bind(*args, **kwargs)
        call.apply_defaults()
        work = _reduce_between_nodes(comm, **call.arguments)
        if work is None:
            return real(*args, **kwargs)
        if call.arguments["async_op"]:
            return work
        work.wait()
        return None

    return all_reduce


def _reduce_between_nodes(
    comm: CommSettings, tensor: torch.Tensor, op: Any, group: Any, async_op: bool
) -> ReducerWork | None:
    """The all-reduce of a shard over its lane; None if it is not one that reducers can do."""
    from rsctl.transport.pytorch.intra_node import WholeGradient
    from rsctl.transport.pytorch.process_group import AVERAGES
    from rsctl.transport.pytorch.session import open_session
    from rsctl.transport.pytorch.topology import timeout_of
    from rsctl.transport.pytorch.work import ReducerWork

    if group is None or op not in AVERAGES or not _is_lane(group):
        return None
    session = open_session(tensor.device, comm)
    topology, reason = session.topology, session.refusal(tensor)
    if not topology.has_two_levels or reason is not None or not tensor.is_contiguous():
        return None
    print_once(", ".join([f"{_HYBRID}: {session.describe()[0]}", *session.describe()[1:]]))
    future = session.pipeline.reduce(
        tensor.view(-1),
        tensor.dtype,
        average=AVERAGES[op],
        intra_node=WholeGradient(),
        timeout=timeout_of(group, tensor.device),
    )
    return ReducerWork(future.then(lambda _: [tensor]), session.pipeline)


def _is_lane(group: dist.ProcessGroup) -> bool:
    """Whether a group has one rank of each node, those with this rank's number on its node."""
    count, rank = number("LOCAL_WORLD_SIZE"), dist.get_rank()
    if count < 2 or group.size() * count != dist.get_world_size():
        return False
    ranks = dist.get_process_group_ranks(group)
    return ranks == list(range(rank % count, dist.get_world_size(), count))


def all_reduce_hook() -> Callable[[torch.Tensor], None]:
    """A hook for FSDP2's `set_all_reduce_hook`, where each node holds all shards.

    It averages what FSDP has reduced inside the node over all nodes, by the reducers. All workers
    must call this together, after `init_process_group`. FSDP2 has `set_all_reduce_hook` from torch
    2.7 on. Raises BindingError if the environment names no reducers.
    """
    # What reducers need is not imported in programs that use none.
    from rsctl.transport.pytorch.intra_node import WholeGradient
    from rsctl.transport.pytorch.session import open_session

    comm = read_settings(os.environ)
    if not comm.reducers:
        raise BindingError("reducers", "there are none", "Set reducers.count.")
    session = open_session(_device(), comm)
    if session.topology.local_world != int(os.environ.get("LOCAL_WORLD_SIZE") or "1"):
        message = (
            "FSDP's all-reduce between nodes needs several nodes with the same number of ranks"
        )
        raise BindingError("reducers", message, "Set reducers.count: 0.")

    def all_reduce(gradient: torch.Tensor) -> None:
        reason = session.refusal(gradient)
        if reason is not None or not gradient.is_contiguous():
            raise BindingError(
                "reducers",
                f"sharded gradients that are {reason or 'not contiguous'} cannot be reduced",
                "Choose another reduce_dtype in FSDP's MixedPrecisionPolicy.",
            )
        whole = WholeGradient()
        session.pipeline.reduce(gradient.view(-1), gradient.dtype, intra_node=whole).wait()

    return all_reduce


def _device() -> torch.device:
    if torch.cuda.is_available() and "nccl" in str(dist.get_backend_config()):
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")
