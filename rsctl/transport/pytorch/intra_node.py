"""Intra-node reduction: what the ranks of a node do before and after the reducers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import timedelta
from typing import Protocol

import torch
import torch.distributed as dist

from rsctl.transport.pytorch.collectives import all_gather, reduce_scatter
from rsctl.transport.pytorch.topology import Topology, first_line


class IntraNode(Protocol):
    """The processing of a gradient inside the node."""

    def scatter(self, gradient: torch.Tensor, average: bool) -> torch.Tensor:
        """This rank's part of the node's sum, or average, of a flat gradient."""

    def gather(self, part: torch.Tensor, gradient: torch.Tensor) -> None:
        """Write everyone's part over the gradient."""


class WholeGradient:
    """One rank reduces the whole gradient."""

    def scatter(self, gradient: torch.Tensor, average: bool) -> torch.Tensor:
        """The gradient itself."""
        return gradient

    def gather(self, part: torch.Tensor, gradient: torch.Tensor) -> None:
        """Copy the part back, unless it is the gradient."""
        if part is not gradient:
            gradient.copy_(part)


class ShardedGradient:
    """The ranks of a node reduce an equal part each: reduce-scatter before, all-gather after.

    All collectives of `group` must come from one thread, in the same order on all its ranks.
    """

    def __init__(self, group: dist.ProcessGroup, topology: Topology) -> None:
        self._group = group
        self._topology = topology
        self._has_reduce_scatter = dist.get_backend(group) != "gloo"

    def scatter(self, gradient: torch.Tensor, average: bool) -> torch.Tensor:
        """See IntraNode. 16 bit gradients are divided before they are added: sums may overflow."""
        padded = self._padded(gradient)
        early = average and gradient.element_size() < 4
        if early:
            padded /= self._topology.local_world
        with self._naming_ranks():
            part = self._reduce_scatter(padded)
        if average and not early:
            part /= self._topology.local_world
        return part

    def gather(self, part: torch.Tensor, gradient: torch.Tensor) -> None:
        """See IntraNode."""
        whole = part.new_empty(part.numel() * self._topology.local_world)
        with self._naming_ranks():
            all_gather(whole, part, group=self._group)
        gradient.view(-1).copy_(whole[: gradient.numel()])

    @contextlib.contextmanager
    def _naming_ranks(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            ranks = ", ".join(map(str, self._topology.node_ranks))
            text = f"a collective among the ranks of a node ({ranks}) failed: {first_line(error)}"
            raise RuntimeError(text) from error

    def _padded(self, gradient: torch.Tensor) -> torch.Tensor:
        """A copy that divides into equal parts."""
        ranks = self._topology.local_world
        size = -(-gradient.numel() // ranks) * ranks
        padded = gradient.new_zeros(size)
        padded[: gradient.numel()] = gradient.view(-1)
        return padded

    def _reduce_scatter(self, padded: torch.Tensor) -> torch.Tensor:
        parts = padded.view(self._topology.local_world, -1)
        mine = parts[self._topology.local_rank]
        if self._has_reduce_scatter:
            part = torch.empty_like(mine)
            reduce_scatter(part, padded, group=self._group)
            return part
        for rank, part in zip(self._topology.node_ranks, parts, strict=True):
            dist.reduce(part, dst=rank, group=self._group)
        return mine.clone()


def intra_node(topology: Topology, device: torch.device, timeout: float | None = None) -> IntraNode:
    """The intra-node reduction for gradients on this device. All workers call this together.

    `timeout` is the timeout of its collectives, in seconds.
    """
    if not topology.has_two_levels:
        return WholeGradient()
    backend = "nccl" if device.type == "cuda" else "gloo"
    group = dist.new_group(
        topology.node_ranks,
        timeout=None if timeout is None else timedelta(seconds=timeout),
        backend=backend,
        use_local_synchronization=True,
    )
    return ShardedGradient(group, topology)
