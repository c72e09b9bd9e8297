"""Many ordered sources as one ordered stream, in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from rsctl.runs.stream.events import LogEvent
from rsctl.runs.stream.merge import OrderedMerge

times = st.integers(0, 30).map(lambda n: f"2026-01-31T12:00:00.{n:06}Z")
source_times = st.lists(st.lists(times, max_size=40).map(sorted), max_size=6)


def line(time: str, replica: str, number: int) -> LogEvent:
    return LogEvent(time, replica, str(number), "stdout", "")


class Blocks:
    """A source that gives its lines in blocks of a size, and after that nothing."""

    def __init__(self, lines: list[LogEvent], size: int, pauses: bool = False) -> None:
        self._lines = lines
        self._size = size
        self._pauses = pauses
        self._pause = False
        self.largest = 0

    def read(self) -> Sequence[LogEvent]:
        if self._pauses:
            self._pause = not self._pause
            if self._pause:
                return []
        block, self._lines = self._lines[: self._size], self._lines[self._size :]
        return block


def sources_of(all_times: list[list[str]], size: int, pauses: bool = False) -> list[Blocks]:
    return [
        Blocks([line(t, f"worker-{i}", n) for n, t in enumerate(times)], size, pauses)
        for i, times in enumerate(all_times)
    ]


def drain(merge: OrderedMerge[LogEvent]) -> list[LogEvent]:
    result: list[LogEvent] = []
    while batch := merge.read(None):
        result += batch
    return result


@given(source_times, st.integers(1, 50))
def test_all_lines_come_out_once_in_order(all_times: list[list[str]], size: int) -> None:
    merged = drain(OrderedMerge(sources_of(all_times, size)))
    assert [event.time for event in merged] == sorted(t for times in all_times for t in times)
    for index, times in enumerate(all_times):
        own = [int(event.id) for event in merged if event.replica == f"worker-{index}"]
        assert own == list(range(len(times)))


@given(source_times, st.integers(1, 50), times)
def test_nothing_younger_than_the_horizon_comes_out(
    all_times: list[list[str]], size: int, horizon: str
) -> None:
    merge = OrderedMerge(sources_of(all_times, size))
    early: list[LogEvent] = []
    while batch := merge.read(horizon):
        early += batch
    assert all(event.time <= horizon for event in early)
    assert len(early) == sum(t <= horizon for times in all_times for t in times)
    everything = early + drain(merge)
    assert [e.time for e in everything] == sorted(t for times in all_times for t in times)


@given(source_times, st.integers(1, 5))
def test_sources_that_pause_lose_nothing(all_times: list[list[str]], size: int) -> None:
    """A source that had nothing new may come late with old lines: they still come out."""
    merge = OrderedMerge(sources_of(all_times, size, pauses=True))
    merged = [event for _ in range(200) for event in merge.read("2026-01-31T12:00:00.000015Z")]
    merged += drain(merge) + drain(merge)
    assert sorted(e.time for e in merged) == sorted(t for times in all_times for t in times)
    for index, times in enumerate(all_times):
        own = [int(event.id) for event in merged if event.replica == f"worker-{index}"]
        assert own == list(range(len(times)))


def test_buffers_stay_small_while_one_source_lags_behind() -> None:
    early = [f"2026-01-31T12:00:00.{n:06}Z" for n in range(20_000)]
    late = [f"2026-01-31T13:00:00.{n:06}Z" for n in range(20_000)]
    merge = OrderedMerge(sources_of([early, late, late], 500))
    largest = 0
    count = 0
    while batch := merge.read(None):
        count += len(batch)
        largest = max(largest, *(len(merge.waiting(index)) for index in range(3)))
    assert count == 60_000
    assert largest <= 700
