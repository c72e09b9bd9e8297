"""How all ranks can reduce a tensor: by a ring, one central reducer, a pool, or a hybrid."""

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist

from rsctl.transport import Transport, WorkerSettings, connect, cost_model, schedule

NAMES = ("ring", "central", "pool", "hybrid")
DTYPES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}

AllReduce = Callable[[torch.Tensor], object]
"""Reduces a tensor over all ranks, in place."""


@dataclass(frozen=True)
class Method:
    """`limit` is the seconds that the links need for one byte at least, `wire` the bytes that each
    worker sends for it. `settings` are None for the ring; `hybrid`: workers reduce a share."""

    name: str
    limit: float
    wire: float
    settings: WorkerSettings | None = None
    hybrid: bool = False

    @property
    def reducers(self) -> int:
        return len(self.settings.reducers) if self.settings else 0


def find_settings() -> WorkerSettings:
    """This worker's place and the reducers, as rsctl left them in the environment."""
    # Without reducers there is no secret either, and none is needed.
    absent = {} if os.environ.get("RSCTL_REDUCERS") else {"RSCTL_TOKEN": "-" * 16}
    return WorkerSettings.from_env({"RSCTL_RUN": "bench", **os.environ, **absent})


def find(settings: WorkerSettings) -> list[Method]:
    """What can be measured here."""
    links, ranks = settings.links, settings.world
    found = [Method("ring", cost_model.ring_seconds(links, 1), 2 * (ranks - 1) / ranks)]
    if not settings.reducers:
        return found
    pool = replace(settings, peers=())
    first = settings.reducer_bandwidths[:1]
    one = replace(pool, reducers=settings.reducers[:1], reducer_bandwidths=first)
    found.append(Method("central", cost_model.pure_seconds(one.links, 1), 1, one))
    if len(settings.reducers) > 1:
        found.append(Method("pool", cost_model.pure_seconds(links, 1), 1, pool))
    plan = schedule.plan(links)
    if plan.hybrid:
        own = plan.weights[plan.dedicated] / len(plan.slots)
        wire = 1 + (ranks - 2) * own
        found.append(Method("hybrid", cost_model.hybrid_seconds(links, 1), wire, settings, True))
    return found


def left_out(asked: list[str], found: list[Method], reducers: int) -> Iterator[str]:
    """Which methods were asked for and cannot be measured, and why."""
    for name in asked:
        if name in [method.name for method in found]:
            continue
        if not reducers:
            yield f"{name} is left out: there are no reducers; set reducers.count"
        elif name == "pool":
            yield "pool is left out: there is one reducer, and that is central"
        else:
            yield f"hybrid is left out: {reducers} reducers can do all by themselves"


class Ranks:
    """All ranks, and how they talk to each other. `op` is sum or avg."""

    def __init__(self, settings: WorkerSettings, backend: str, op: str) -> None:
        self.settings = settings
        self.count = settings.world
        self.op = op
        # Groups of our own: the spec's `comm.backend` changes the default one.
        self._control = dist.new_group(backend="gloo")
        self._ring = dist.new_group(backend=backend)
        self._openings = 0

    @contextmanager
    def opened(self, method: Method) -> Iterator[tuple[AllReduce, str | None]]:
        """The method, ready for use, and what reduces: the transport's `core` or `python`."""
        if method.settings is None:
            yield self._by_ring, None
            return
        self._openings += 1
        # A reducer serves one epoch of a run; who connects anew must be of a later one.
        epoch = self.settings.epoch + self._openings
        exchange = self.gather if method.hybrid else None
        with connect(replace(method.settings, epoch=epoch), exchange) as transport:
            yield self._by_reducers(transport), transport.engine
        self.barrier()

    def _by_ring(self, tensor: torch.Tensor) -> None:
        dist.all_reduce(tensor, group=self._ring)
        if self.op == "avg":
            tensor /= self.count  # as DDP does it: gloo cannot

    def _by_reducers(self, transport: Transport) -> AllReduce:
        def all_reduce(tensor: torch.Tensor) -> None:
            on_host = tensor if tensor.device.type == "cpu" else _host_copy(tensor)
            transport.all_reduce(memory(on_host), DTYPES[tensor.dtype], self.op).wait()
            if on_host is not tensor:
                tensor.copy_(on_host, non_blocking=True)

        return all_reduce

    def expected(self, tensor: torch.Tensor) -> torch.Tensor:
        """Gloo's result for the same numbers in fp32, on the CPU."""
        total = tensor.to("cpu", torch.float32, copy=True)
        dist.all_reduce(total, group=self._control)
        return total / self.count if self.op == "avg" else total

    def gather(self, mine: Any) -> list[Any]:
        """What every rank has, by rank."""
        everyone: list[Any] = [None] * self.count
        dist.all_gather_object(everyone, mine, group=self._control)
        return everyone

    def barrier(self) -> None:
        dist.barrier(self._control)


def _host_copy(tensor: torch.Tensor) -> torch.Tensor:
    """The same in pinned memory of the host, which PyTorch keeps for the next copy."""
    copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    copy.copy_(tensor)
    return copy


def memory(tensor: torch.Tensor) -> memoryview:
    """The bytes of a contiguous CPU tensor, which must outlive this view of them."""
    nbytes = tensor.numel() * tensor.element_size()
    return memoryview((ctypes.c_char * nbytes).from_address(tensor.data_ptr())).cast("B")
