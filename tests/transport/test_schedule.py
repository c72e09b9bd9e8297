"""Shares, rows and windows: the published formulas, and that no schedule can deadlock."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsctl.transport import cost_model, schedule
from rsctl.transport.cost_model import Links
from rsctl.transport.schedule import Schedule

_B = cost_model.net_rate(200e6)
_K = 25_000_000

_LINKS = st.builds(
    lambda workers, worker, reducers: Links(workers, worker, tuple(reducers)),
    st.integers(2, 12),
    st.floats(1e6, 1e9),
    st.lists(st.floats(1e6, 1e9), max_size=8),
)


def _equal(workers: int, reducers: int) -> Links:
    return Links(workers, _B, (_B,) * reducers)


@pytest.mark.parametrize(
    ("workers", "reducers", "ring", "pure", "hybrid"),
    [(8, 8, 1.830, 1.046, 1.046), (8, 4, 1.830, 2.091, 1.331), (4, 1, 1.568, 4.182, 1.394)],
)
def test_the_formulas_give_the_known_times(
    workers: int, reducers: int, ring: float, pure: float, hybrid: float
) -> None:
    links = _equal(workers, reducers)
    times = [
        cost_model.ring_seconds(links, _K),
        cost_model.pure_seconds(links, _K),
        cost_model.hybrid_seconds(links, _K),
    ]
    assert [round(time, 3) for time in times] == [ring, pure, hybrid]


@pytest.mark.parametrize(
    ("workers", "reducers", "weights"),
    [
        (4, 4, (1, 1, 1, 1)),
        (4, 1, (2, 1, 1, 1, 1)),
        (4, 2, (3, 3, 1, 1, 1, 1)),
        (8, 4, (7, 7, 7, 7, *(2,) * 8)),
        (2, 0, (1, 1)),
    ],
)
def test_pools_of_equal_links_have_the_optimal_weights(
    workers: int, reducers: int, weights: tuple[int, ...]
) -> None:
    planned = schedule.plan(_equal(workers, reducers))
    assert (planned.weights, planned.hybrid) == (weights, len(weights) > reducers)


def test_a_reducer_of_half_the_bandwidth_has_half_the_weight() -> None:
    planned = schedule.pure(Links(4, _B, (_B / 2, _B, _B, _B)))
    assert planned.weights == (1, 2, 2, 2)


def test_the_slots_of_a_reducer_are_spread_over_its_row() -> None:
    """All workers send by the same row, whatever the version of rsctl on their nodes."""
    assert schedule.plan(_equal(4, 1)).slots == (0, 1, 2, 3, 4, 0)
    slow = schedule.pure(Links(4, _B, (_B / 2, _B, _B, _B)))
    assert slow.slots == (1, 2, 3, 0, 1, 2, 3)


def test_without_reducers_and_peers_there_is_no_plan() -> None:
    with pytest.raises(ValueError, match="no reducer"):
        schedule.plan(Links(1, _B, ()))


@given(_LINKS)
def test_shares_are_whole_and_never_slower_than_the_ring(links: Links) -> None:
    assert sum(cost_model.hybrid_shares(links)) == pytest.approx(1)
    assert cost_model.hybrid_seconds(links, _K) <= cost_model.ring_seconds(links, _K) * (1 + 1e-9)


@given(_LINKS, st.integers(0, 1 << 30))
def test_blocks_cover_an_operation_and_no_window_is_below_its_weight(
    links: Links, total: int
) -> None:
    planned = schedule.plan(links)
    size = planned.chunk_bytes(total)
    assert 0 < size <= planned.frame
    assert size % 64 == 0
    assert all(
        window > weight for window, weight in zip(planned.windows, planned.weights, strict=True)
    )


@given(_LINKS, st.integers(1, 300))
def test_every_rank_sends_every_block_once(links: Links, chunks: int) -> None:
    planned = schedule.plan(links)
    for rank in range(links.workers):
        assert sorted(planned.order(rank, chunks)) == list(range(chunks))


def test_ranks_start_their_rows_at_different_reducers() -> None:
    planned = schedule.plan(_equal(4, 4))
    firsts = [planned.server_of(1, next(planned.order(rank, 8))) for rank in range(4)]
    assert firsts == [0, 1, 2, 3]


@given(
    _LINKS,
    st.lists(st.integers(1, 120), min_size=1, max_size=4),
    st.randoms(use_true_random=False),
)
def test_no_order_of_events_deadlocks(links: Links, operations: list[int], random: object) -> None:
    planned = schedule.plan(links, window=1)
    assert _simulate(planned, operations, random.shuffle)  # type: ignore[attr-defined]


def test_a_window_below_the_weight_would_deadlock() -> None:
    planned = schedule.plan(_equal(8, 4))
    windows = tuple(max(1, weight // 2) for weight in planned.weights)
    narrow = Schedule(8, 4, planned.slots, windows, planned.frame)
    assert not _simulate(narrow, [44 * 4], lambda ranks: None)


def _simulate(planned: Schedule, operations: list[int], shuffle: object) -> bool:
    """Whether all workers can send everything, when they take turns in any order."""
    ranks = list(range(planned.workers))
    queues = {
        rank: [
            (sequence, chunk)
            for sequence, chunks in enumerate(operations, 1)
            for chunk in planned.order(rank, chunks)
        ]
        for rank in ranks
    }
    sent = dict.fromkeys(ranks, 0)
    room = {rank: list(planned.windows) for rank in ranks}
    came: dict[tuple[int, int], int] = {}
    moved = True
    while moved:
        moved = False
        shuffle(ranks)  # type: ignore[operator]
        for rank in ranks:
            if sent[rank] == len(queues[rank]):
                continue
            block = queues[rank][sent[rank]]
            server = planned.server_of(*block)
            if room[rank][server] == 0:
                continue
            room[rank][server] -= 1
            sent[rank] += 1
            moved = True
            came[block] = came.get(block, 0) + 1
            if came[block] == planned.workers:
                for other in ranks:
                    room[other][server] += 1
    return all(sent[rank] == len(queues[rank]) for rank in ranks)


@pytest.mark.parametrize("workers", [2, 5, 12, 17, 37, 48, 64])
def test_a_reducer_more_costs_next_to_nothing(workers: int) -> None:
    """Where workers are the limit, a slot more in the row is all that another reducer changes."""
    total, best = 25_000_000, math.inf
    for reducers in range(workers + 3):
        links = Links(workers, 1.25e9, (1.25e9,) * reducers)
        seconds = schedule.plan(links).seconds(links, total)
        assert seconds <= best * 1.01, (reducers, seconds, best)
        best = min(best, seconds)


@pytest.mark.parametrize(("workers", "reducers"), [(37, 19), (48, 33), (64, 36)])
def test_a_large_hybrid_is_near_its_optimum(workers: int, reducers: int) -> None:
    total = 25_000_000
    links = Links(workers, 1.25e9, (1.25e9,) * reducers)
    assert schedule.plan(links).seconds(links, total) < 1.15 * cost_model.hybrid_seconds(
        links, total
    )
