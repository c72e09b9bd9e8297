"""Which ranks share a node, and which share a lane: a group with its own share of the reducers."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore

from rsctl.transport.pytorch.settings import BindingError


def timeout_of(group: dist.ProcessGroup, device: torch.device) -> float | None:
    """A process group's timeout in seconds; None if it is unknown, or the job's own setting is
    to count."""
    if os.environ.get("RSCTL_TRANSPORT_TIMEOUT"):
        return None
    try:
        backend: Any = group._get_backend(device)
        seconds: float = backend.options._timeout.total_seconds()
    except (AttributeError, RuntimeError):
        return None
    return seconds if seconds > 0 else None


def first_line(error: Exception) -> str:
    """The first line of an error's text."""
    return next(iter(str(error).splitlines()), type(error).__name__)


class RankExchange:
    """All-gather of texts through PyTorch's store, before anything else connects the workers."""

    def __init__(self, name: str) -> None:
        self._store = PrefixStore(f"rsctl/{name}", dist.distributed_c10d._get_default_store())

    def all_gather(self, topic: str, text: str, ranks: Sequence[int]) -> list[str]:
        """Publish a text; returns those of these ranks, in their order, once all are there."""
        self._store.set(f"{topic}/{dist.get_rank()}", text)
        return [self._get(topic, rank) for rank in ranks]

    def _get(self, topic: str, rank: int) -> str:
        try:
            return self._store.get(f"{topic}/{rank}").decode()
        except RuntimeError as error:
            if "timeout" not in str(error).lower():  # PyTorch 2.4 says: Socket Timeout
                raise
            message = f"rank {rank} did not connect to the reducers: {first_line(error)}"
            remedy = "See its log: it is slow, stuck or lost, or runs other collectives."
            raise BindingError("reducers", message, remedy, "collective-timeout") from error


@dataclass(frozen=True)
class Topology:
    """A worker's rank in the job, on its node and in its lane.

    On nodes with one rank, all ranks form one `lane`: a group that shares its reducers. Nodes with
    several ranks reduce inside the node first; then the ranks with the same local rank form a lane
    each, with one member a node, and each has its share of the gradients.
    """

    rank: int
    world: int
    local_rank: int = 0
    local_world: int = 1

    @property
    def has_two_levels(self) -> bool:
        """Whether gradients are reduced inside the node first."""
        return self.local_world > 1

    @property
    def lane(self) -> int:
        """Which lane this rank is in."""
        return self.local_rank

    @property
    def lane_ranks(self) -> list[int]:
        """All ranks of this lane, in their order."""
        return list(range(self.local_rank, self.world, self.local_world))

    @property
    def lane_rank(self) -> int:
        """This rank's number within its lane."""
        return self.rank // self.local_world

    @property
    def node_ranks(self) -> list[int]:
        """All ranks of this node."""
        first = self.rank - self.local_rank
        return list(range(first, first + self.local_world))

    def name_ranks(self, text: str) -> str:
        """A text about ranks of this lane, with their numbers in the job."""
        ranks = dict(enumerate(self.lane_ranks))
        return re.sub(r"\brank (\d+)", lambda m: f"rank {ranks.get(int(m[1]), m[1])}", text)

    def describe(self) -> str:
        """How many workers there are, and on how many nodes."""
        if not self.has_two_levels:
            return f"{self.world} workers"
        return f"{self.world // self.local_world} nodes of {self.local_world} workers (two levels)"


def find_topology(exchange: RankExchange) -> Topology:
    """This rank's topology. All workers call this together.

    Two levels need several nodes with equally many ranks each, numbered node by node, as torchrun
    does it; everything else is one lane of all ranks.
    """
    rank, world = dist.get_rank(), dist.get_world_size()
    local, count = (os.environ.get(name, "") for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    published = exchange.all_gather("topology", f"{local}/{count}", range(world))
    if not count.isdigit() or not 1 < int(count) < world or world % int(count):
        return Topology(rank, world)
    if published != [f"{other % int(count)}/{count}" for other in range(world)]:
        return Topology(rank, world)
    return Topology(rank, world, int(local), int(count))
