"""Who counts in an exchange with a quorum: ranks are threads here."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit.polling import wait_until


class Ranks:
    """Ranks that average by a barrier; `come` and `leave` are one rank's side of an exchange."""

    def __init__(self, world: int, quorum: int, timeout: float = 20.0) -> None:
        import torch  # which the collection of tests does not need

        from rsctl.transport.pytorch.quorum import Quorum

        self._parts: list[Any] = [None] * world
        self._all = threading.Barrier(world)
        store = torch.distributed.HashStore()
        self._ranks = [
            Quorum(self._average_of(rank), store, rank, world, quorum, timeout)
            for rank in range(world)
        ]
        self._store = store
        self._begun: dict[tuple[int, int], Any] = {}
        self._next = [itertools.count() for _ in range(world)]

    def _average_of(self, rank: int) -> Any:
        def average(flat: Any) -> None:
            self._parts[rank] = flat.clone()
            self._all.wait(20)
            flat.copy_(sum(self._parts) / len(self._parts))
            self._all.wait(20)

        return average

    def come(self, rank: int, value: float) -> None:
        """Bring a change to this rank's next exchange."""
        import torch

        change = torch.full((3,), value)
        wait = self._ranks[rank].begin(change)
        self._begun[rank, next(self._next[rank])] = change, wait

    def leave(self, rank: int, number: int) -> tuple[float, bool]:
        """The average of an exchange, and whether this rank counted."""
        change, wait = self._begun[rank, number]
        has_counted = wait()
        return change[0].item(), has_counted

    def is_closed(self, number: int) -> bool:
        """Whether it is decided who counts."""
        return bool(self._store.check([f"{number}/closed"]))

    def keys(self) -> int:
        """How many values the store has."""
        return int(self._store.num_keys())

    def stop(self) -> None:
        """End the threads."""
        from rsctl.transport.pytorch import quorum

        self._all.abort()
        quorum.stop_all()


@pytest.fixture
def ranks() -> Iterator[Any]:
    """Make ranks, and end them after the test."""
    made: list[Ranks] = []

    def make(*args: Any, **more: Any) -> Ranks:
        made.append(Ranks(*args, **more))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def test_a_late_rank_is_left_out_once_and_then_waited_for(ranks: Any) -> None:
    three = ranks(3, 2)
    for rank in range(3):
        three.come(rank, rank + 1.0)
    assert [three.leave(rank, 0) for rank in range(3)] == [(2.0, True)] * 3
    for rank in (0, 1):
        three.come(rank, 5.0)
    assert [three.leave(rank, 1) for rank in (0, 1)] == [(5.0, True)] * 2
    for rank in (0, 1):
        three.come(rank, 6.0)  # the next exchange, for which rank 2 must come
    three.come(2, 7.0)
    assert three.leave(2, 1) == (5.0, False)
    assert not three.is_closed(2)
    three.come(2, 9.0)
    assert [three.leave(rank, 2) for rank in range(3)] == [(7.0, True)] * 3


def test_the_store_does_not_grow_with_the_exchanges(ranks: Any) -> None:
    """Rank 2 is left out of each second exchange."""
    three = ranks(3, 2)
    for number in range(0, 12, 2):
        for rank in range(3):
            three.come(rank, 1.0)
        three.come(0, 2.0)
        three.come(1, 2.0)
        assert three.leave(1, number + 1) == (2.0, True)
        three.come(2, 3.0)
        assert three.leave(2, number + 1) == (2.0, False)
    for rank in range(3):
        three.come(rank, 1.0)
    assert three.leave(0, 12)[1]
    wait_until(lambda: three.keys() <= 8)


def test_the_first_rank_may_be_the_late_one(ranks: Any) -> None:
    two = ranks(2, 1)
    for number, rank in ((0, 0), (0, 1), (1, 1)):
        two.come(rank, 4.0 + number)
    assert two.leave(1, 1) == (5.0, True)
    two.come(0, 8.0)
    assert two.leave(0, 0) == (4.0, True)
    assert two.leave(0, 1) == (5.0, False)


def test_fewer_than_the_quorum_wait(ranks: Any) -> None:
    three = ranks(3, 2)
    for rank in range(3):
        three.come(rank, 1.0)
    assert three.leave(0, 0) == (1.0, True)
    three.come(0, 2.0)
    wait_until(lambda: three._store.check(["1/0"]))
    assert not three.is_closed(1)
    three.come(1, 4.0)
    assert three.leave(0, 1) == (3.0, True)


def test_a_rank_that_never_comes_is_named_after_the_timeout(ranks: Any) -> None:
    two = ranks(2, 1, timeout=0.2)
    two.come(0, 1.0)
    with pytest.raises(RuntimeError, match=r"ranks \[1\] have not come for 0\.2 s"):
        two.leave(0, 0)
