"""FSDP: a notice about collectives without reducers, and the all-reduce hook that uses them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from rsctl.transport.pytorch.report import print_once
from rsctl.transport.pytorch.settings import BindingError, read_settings
from rsctl.transport.pytorch.wrapping import warn_if_deprecated

was_noticed = False
"""Whether the script has reduced sharded gradients."""


def with_notice(real: Callable[..., Any]) -> Callable[..., Any]:
    """A `reduce_scatter_single` that says once that reducers have no part in it."""

    def reduce_scatter(*args: Any, **kwargs: Any) -> Any:
        global was_noticed
        was_noticed = True
        print_once(
            "sharded gradients (FSDP): reduce-scatter and all-gather do not use reducers; only "
            "an all-reduce between nodes can use them (all_reduce_hook)"
        )
        # Of `with_findings` and of here, the caller is the third.
        return warn_if_deprecated(real, 3)(*args, **kwargs)

    return reduce_scatter


def all_reduce_hook() -> Callable[[torch.Tensor], None]:
    """A hook for FSDP2's `set_all_reduce_hook`, where each node holds all shards.

    It averages what FSDP has reduced inside the node over all nodes, by the reducers. All workers
    must call this together, after `init_process_group`. Raises BindingError if the environment
    names no reducers.
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
