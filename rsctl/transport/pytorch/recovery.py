"""Recovery from a lost reducer: the workers agree, and all-reduce among themselves.

When reducers end, workers may differ in the operations that they have finished. All report to each
other, over a separate gloo group, which operation they finished last. What any of them has finished
is a result, and is given to those that lack it. What none has finished is reduced by the workers
themselves, as is everything from there on.

They add as reducers do: in the order of ranks, in fp32, averaged before it is narrowed. So the
numbers are those that the reducers would have given, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist

from rsctl.transport.frames import GROUP_BYTES
from rsctl.transport.pytorch import packing
from rsctl.transport.pytorch.collectives import all_gather, all_to_all
from rsctl.transport.pytorch.topology import Topology


class RecoveryFailed(Exception):
    """The workers cannot continue together.

    `is_worker_lost` is whether that is because a worker has ended or does not answer.
    """

    is_worker_lost = False


class Recovery:
    """The workers of a lane among themselves. All calls come from one thread."""

    def __init__(self, topology: Topology, timeout: float | None = None) -> None:
        """All workers of the lane call this together. `timeout` is in seconds."""
        self._ranks = topology.lane_ranks
        self.is_leader = topology.lane_rank == 0
        """Whether this worker reports for all of its lane."""
        self._group = dist.new_group(
            self._ranks,
            timeout=None if timeout is None else timedelta(seconds=timeout),
            backend="gloo",
            use_local_synchronization=True,
        )

    def settle(self, completed: int, can_go_on: bool, result: Callable[[int], torch.Tensor]) -> int:
        """Bring all to the last operation that anyone has finished, and return its number.

        `completed` is the last operation that is finished here. `result` gives the host memory of
        an operation: its result if it is finished, otherwise the memory for its result. Raises
        RecoveryFailed if a worker cannot continue, or has ended.
        """
        try:
            finished = self._exchange_progress(completed, can_go_on)
            for number in range(min(finished) + 1, max(finished) + 1):
                source = next(m for m, last in enumerate(finished) if last >= number)
                data = result(number).view(torch.uint8)
                dist.broadcast(data, src=self._ranks[source], group=self._group)
        except RuntimeError as error:
            failed = RecoveryFailed(f"a worker did not answer: {error}")
            failed.is_worker_lost = True
            raise failed from error
        return max(finished)

    def _exchange_progress(self, completed: int, can_go_on: bool) -> list[int]:
        mine = torch.tensor([completed, int(can_go_on)])
        everyone = mine.new_empty(2 * len(self._ranks))
        all_gather(everyone, mine, group=self._group)
        last, willing = everyone.view(-1, 2).unbind(1)
        unwilling = [self._ranks[m] for m, able in enumerate(willing.tolist()) if not able]
        if unwilling:
            raise RecoveryFailed(f"rank {unwilling[0]} cannot continue")
        return [int(number) for number in last.tolist()]

    def all_reduce(self, data: torch.Tensor, average: bool, packed: str | None = None) -> None:
        """Reduce flat host memory in topology, in the order of ranks and in fp32.

        `packed` is the compression of 8 bits of which the memory has groups, if it has.
        """
        workers, size = len(self._ranks), data.numel()
        unit = GROUP_BYTES if packed else 1
        share = -(-size // (workers * unit)) * unit
        if not share:
            return
        sent = data.new_zeros(share * workers)
        sent[:size] = data
        received = torch.empty_like(sent)
        # As bytes, since not every version of gloo moves every dtype.
        all_to_all(_bytes(received), _bytes(sent), group=self._group)
        parts = received.view(workers, share)
        total = _sum(parts, average) if packed is None else packing.reduce(parts, packed, average)
        all_gather(_bytes(sent), _bytes(total.to(data.dtype)), group=self._group)
        data.copy_(sent[:size])


def _sum(parts: torch.Tensor, average: bool) -> torch.Tensor:
    total = parts[0].to(torch.float32, copy=True)
    for part in parts[1:]:
        total += part.to(torch.float32)
    return total / len(parts) if average else total


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(torch.uint8)
