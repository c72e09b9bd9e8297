"""The backend `rsctl`: all-reduce by the reducers, everything else by gloo and NCCL."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store

from rsctl.transport.pytorch import session
from rsctl.transport.pytorch.compiling import keep_out
from rsctl.transport.pytorch.gradient_pipeline import AFTER_FAILURE, GradientPipeline
from rsctl.transport.pytorch.host_buffers import future_for, refusal
from rsctl.transport.pytorch.report import print_once, report_error
from rsctl.transport.pytorch.settings import BindingError, CommSettings
from rsctl.transport.pytorch.topology import timeout_of
from rsctl.transport.pytorch.work import ReducerWork

_RETURNS_WORK = re.compile(r"-> [^\n]*\bWork\b")


def delegated(group: type) -> list[str]:
    """The collectives of a class of process groups but all-reduce in any version.

    They are the methods that return a Work, as pybind11 writes it into their documentation, and
    `monitored_barrier`, which waits.
    """
    return [
        name
        for name, member in vars(group).items()
        if name == "monitored_barrier"
        or (name != "allreduce" and _RETURNS_WORK.search(getattr(member, "__doc__", "") or ""))
    ]


DELEGATED = tuple(delegated(dist.ProcessGroup))
"""The collectives of the installed version of torch that reducers do not run."""

AVERAGES = {dist.ReduceOp.SUM: False, dist.ReduceOp.AVG: True}
"""The operations that reducers have, and whether they average."""


def create(store: Store, rank: int, size: int, timeout: timedelta) -> dist.ProcessGroup:
    """A group of this backend, as PyTorch asks for it."""
    return ReducerGroup(store, rank, size, timeout)


class ReducerGroup(dist.ProcessGroup):
    """A process group whose all-reduce over all workers goes through the reducers.

    What reducers cannot reduce (other operations, dtypes and groups) goes by gloo or NCCL, as do
    all other collectives. `in_order` makes each all-reduce wait for its result: callers that
    start one when another has ended do so in the same order on all ranks then.
    """

    comm = CommSettings()
    """The settings of the spec, set when the binding attaches."""

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)  # type: ignore[call-arg]
        self.in_order = False
        self.plain: Any = dist.ProcessGroup(rank, size)  # type: ignore[call-arg]
        """A group of the same backends in C++ alone, which runs all other collectives."""
        kinds = dist.ProcessGroup.BackendType
        if torch.cuda.is_available() and dist.is_nccl_available():
            options = dist.ProcessGroupNCCL.Options()
            options._timeout = timeout
            nccl = dist.ProcessGroupNCCL(PrefixStore("cuda", store), rank, size, options)
            self._add_backend("cuda", kinds.NCCL, nccl)
        gloo = dist.ProcessGroupGloo(PrefixStore("cpu", store), rank, size, timeout=timeout)
        self._add_backend("cpu", kinds.GLOO, gloo)
        for group in (self, self.plain):
            if hasattr(group, "_set_default_backend"):  # from 2.5 on
                group._set_default_backend(kinds.GLOO)

    def _add_backend(self, device: str, kind: Any, backend: Any) -> None:
        for group in (self, self.plain):
            group._register_backend(torch.device(device), kind, backend)

    def allreduce(  # type: ignore[override]
        self, tensors: Any, opts: Any = None
    ) -> Any:
        """Reduce one tensor, or a list of one, in place."""
        self.check()
        tensor = tensors if isinstance(tensors, torch.Tensor) else tensors[0]
        options = _options(opts)
        reason = self._refusal(tensors, tensor, options)
        if reason is not None:
            print_once(f"backend rsctl: all-reduce of {reason} does not use reducers")
            several = [tensors] if isinstance(tensors, torch.Tensor) else tensors
            return self.plain.allreduce(several, options)
        pipeline = self._open(tensor.device)
        flat = tensor.contiguous().view(-1)  # a copy, if it is not contiguous
        timeout = timeout_of(self, tensor.device)
        average = AVERAGES[options.reduceOp.op]
        future = pipeline.reduce(flat, tensor.dtype, average=average, timeout=timeout)
        if self.in_order:
            result = future.wait()
            future = future_for(tensor.device)
            future.set_result(result)

        def listed(done: torch.futures.Future[torch.Tensor]) -> list[torch.Tensor]:
            reduced = done.value()
            if not tensor.is_contiguous():
                tensor.copy_(reduced.view(tensor.shape))
            return [tensor]

        return ReducerWork(future.then(listed), pipeline)

    def _open(self, device: torch.device) -> GradientPipeline:
        try:
            return session.open_session(device, self.comm).pipeline
        except BindingError as error:
            raise report_error(error) from error.__cause__

    def check(self) -> None:
        """Before a collective: raise RuntimeError if one by the reducers has failed.

        Ranks may have different tensors since then, and may be at different collectives. Groups of
        some of the workers never use reducers, and continue.
        """
        session.hand_over()
        failure = session.failure()
        if failure is not None and self.size() == dist.get_world_size():
            raise RuntimeError(f"{AFTER_FAILURE}: {failure}")

    def _refusal(self, tensors: Any, tensor: torch.Tensor, options: Any) -> str | None:
        if self.size() != dist.get_world_size():
            return "groups other than all workers"
        if not isinstance(tensors, torch.Tensor) and len(tensors) != 1:
            return "several tensors"
        if options.reduceOp.op not in AVERAGES:
            return str(options.reduceOp.op).partition(".")[2].lower()
        return refusal(tensor)

    def getBackendName(self) -> str:
        """The name by which a script asks for it."""
        return "rsctl"


def _options(opts: Any) -> Any:
    """PyTorch hands over its options or, in another of its overloads, an operation."""
    if isinstance(opts, dist.AllreduceOptions):
        return opts
    options = dist.AllreduceOptions()
    if opts is not None:
        options.reduceOp = opts
    return options


def _delegate(name: str) -> Callable[..., Any]:
    """A collective by gloo or NCCL, called on the group in C++.

    Of a group that is written in Python, PyTorch runs what is not overridden with the interpreter's
    lock held. gloo's threads need that lock to release an operation while they hold their own, so
    that both could wait for each other forever. The group in C++ releases the lock first.
    """

    def collective(self: ReducerGroup, *args: Any, **kwargs: Any) -> Any:
        self.check()
        return getattr(self.plain, name)(*args, **kwargs)

    collective.__name__ = name
    return collective


for _name in DELEGATED:
    setattr(ReducerGroup, _name, _delegate(_name))

keep_out(ReducerGroup, ["allreduce", *DELEGATED])
