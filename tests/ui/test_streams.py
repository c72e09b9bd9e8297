"""What the streams send and when, by a clock of the test's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from rsctl.api import Bench, RsctlError, Run, Store
from rsctl.findings import ExitCode, JobState, error
from rsctl.runs.stream.events import LogEvent
from rsctl.ui import streams
from rsctl.ui.keeper import Keeper
from rsctl.ui.lists import Query
from rsctl.ui.run_view import View

UNREADABLE = error("store", "cannot read\x1b", "free space")
FAILED = RsctlError(ExitCode.ENVIRONMENT, UNREADABLE, error("store", "b"))
PROBLEM = ("problem", ["cannot read\\x1b → free space", "b"])


class Clock:
    """The time, which passes only where a stream waits, and the keeper, which stops at an end."""

    def __init__(self, end: float = 1e9) -> None:
        self.time, self.end, self.waits = 1000.0, 1000 + end, list[float]()
        self.stop = self

    def __call__(self) -> float:
        return self.time

    def is_set(self) -> bool:
        return self.time >= self.end

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.time += seconds

    @property
    def keeper(self) -> Keeper:
        return SimpleNamespace(stop=self, outdated={})  # type: ignore[return-value]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(streams, "monotonic", made)
    monkeypatch.setattr(streams, "perf_counter", made)
    return made


def sent(events: Iterator[bytes]) -> Iterator[tuple[str, Any]]:
    for each in events:
        name, data, *rest = each.decode().split("\n")
        assert (name[:7], data[:6], rest) == ("event: ", "data: ", ["", ""])
        yield name[7:], json.loads(data[6:])


def test_a_list_is_sent_when_it_has_changed_and_every_ten_seconds(clock: Clock) -> None:
    clock.end = 1024.0
    texts = iter(["a", "a"] + ["b"] * 50)
    noted = [
        (clock.time - 1000, name, data)
        for name, data in sent(
            streams.list_events(clock.keeper, lambda _store, _query: next(texts), Query())
        )
    ]
    assert noted == [
        (0.0, "parts", {"parts": {"list": "a"}}),
        (3.0, "parts", {"parts": {"list": "b"}}),
        (13.5, "parts", {"parts": {}}),  # a closed connection is noticed
    ]
    assert set(clock.waits) == {1.5}


def test_a_list_that_cannot_be_read_is_tried_again(clock: Clock) -> None:
    clock.end = 1004.0
    outcomes: Iterator[Any] = iter([FAILED, "a", FAILED])

    def make(_store: Store, _query: Query) -> str:
        if isinstance(made := next(outcomes), RsctlError):
            raise made
        return str(made)

    assert list(sent(streams.list_events(clock.keeper, make, Query()))) == [
        PROBLEM,
        ("parts", {"parts": {"list": "a"}}),
        PROBLEM,
    ]


def views(clock: Clock, monkeypatch: pytest.MonkeyPatch, took: float, *made: Any) -> None:
    """Let every page be these views in turn, each of which takes some time to make."""
    rest = iter(made)

    def make(*_: object) -> View:
        clock.time += took
        if isinstance(view := next(rest), RsctlError):
            raise view
        return view  # type: ignore[no-any-return]

    for name in ("run_view", "bench_view", "compare_view"):
        monkeypatch.setattr(streams, name, make)


def view(is_final: bool = False, plots: tuple[int, ...] = (), **parts: str) -> View:
    return View(parts, [{"n": n} for n in plots], "running", is_final)


def update(parts: dict[str, str], plots: dict[str, int], final: bool = False) -> tuple[str, Any]:
    shown = {number: {"n": n} for number, n in plots.items()}
    return "parts", {"parts": parts, "plots": shown, "state": "running", "final": final}


STREAMS: list[Callable[[Keeper], Iterator[bytes]]] = [
    lambda keeper: streams.bench_events(keeper, bench()),
    lambda keeper: streams.compare_events(keeper, ["a", "b"]),
]


def bench() -> Bench:
    return SimpleNamespace(reload=lambda: None)  # type: ignore[return-value]


@pytest.mark.parametrize("stream", STREAMS, ids=["bench", "compare"])
def test_a_page_gets_what_has_changed_until_its_end(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, stream: Callable[[Keeper], Iterator[bytes]]
) -> None:
    views(
        clock,
        monkeypatch,
        0.0,
        view(plots=(1, 2), a="1", b="2", c=""),
        view(plots=(1, 3), a="1", b="3", c=""),
        FAILED,
        view(plots=(1, 3, 4), a="", b="3", c="x"),
        view(is_final=True, plots=(1,), a="", b="3", c="x"),
    )
    assert list(sent(stream(clock.keeper))) == [
        update({"a": "1", "b": "2"}, {"0": 1, "1": 2}),
        update({"b": "3"}, {"1": 3}),
        PROBLEM,
        update({"a": "", "c": "x"}, {"2": 4}),
        update({}, {}, final=True),
        ("end", {}),
    ]
    assert clock.waits == [0.5] * 8  # a view each second


@pytest.mark.parametrize(("took", "pause"), [(0.0, 1.0), (0.125, 1.0), (0.5, 4.0), (2.0, 16.0)])
def test_a_page_that_takes_long_is_made_less_often(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, took: float, pause: float
) -> None:
    views(clock, monkeypatch, took, *[view()] * 3, view(is_final=True))
    times = [clock.time for _ in streams.compare_events(clock.keeper, ["a", "b"])]
    assert [later - time for time, later in pairwise(times[:-1])] == [took + pause] * 3


def test_a_page_ends_with_the_server(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    clock.end = 1001.5
    views(clock, monkeypatch, 0.0, *[view()] * 9)
    names = [name for name, _ in sent(streams.compare_events(clock.keeper, ["a", "b"]))]
    assert names == ["parts", "parts"]


def line(number: int, stream: str = "stdout", **fields: Any) -> LogEvent:
    time = f"2026-01-31T12:00:{number % 60:02}.5Z"
    return LogEvent(time, "worker-0", str(number), stream, f"line {number}", **fields)  # type: ignore[arg-type]


class FollowedRun:
    """A run whose log has these batches, with the time at which each comes."""

    def __init__(self, clock: Clock, *batches: tuple[float, list[LogEvent]]) -> None:
        self.id, self.state, self.record = "job-aaaaaa", JobState.RUNNING, None
        self.asked: tuple[object, ...] = ()
        self.clock, self.batches, self.final_after = clock, batches, 0

    def reload(self) -> None:
        """Notice the end, some views after the last line."""
        self.final_after -= 1
        self.state = JobState.SUCCEEDED if self.final_after < 0 else JobState.RUNNING

    def log_batches(self, chosen: Any, tail: int, follow: bool) -> Iterator[list[LogEvent]]:
        self.asked = (chosen.replicas, chosen.grep, tail, follow)
        for time, batch in self.batches:
            self.clock.time = 1000 + time
            yield batch

    def events(self, **parameters: str) -> list[tuple[str, Any]]:
        run: Run = self  # type: ignore[assignment]
        return list(sent(streams.run_events(self.clock.keeper, run, parameters)))

    def log(self, **parameters: str) -> list[Any]:
        return [data for name, data in self.events(**parameters) if name == "log"]


@pytest.fixture
def always_the_same(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    views(clock, monkeypatch, 0.0, *[view()] * 99)


def row(number: int, is_error: int = 0, where: str = "worker-0") -> list[Any]:
    return [f"12:00:{number % 60:02}", where, is_error, f"line {number}"]


@pytest.mark.usefixtures("always_the_same")
def test_lines_are_sent_together_when_they_come_fast(clock: Clock) -> None:
    run = FollowedRun(
        clock,
        (0.0, [line(1, "stderr"), line(2, rank="worker-0/3")]),
        (0.125, [line(3)]),  # too early after the last event
        (0.25, [line(4)]),
        (0.375, []),
        (9.0, [line(5)]),
        (9.125, [line(6)]),
    )
    assert run.log() == [
        {"left": 0, "lines": [row(1, 1), row(2, where="worker-0/3")]},
        {"left": 0, "lines": [row(3), row(4)]},
        {"left": 0, "lines": [row(5)]},
        {"left": 0, "lines": [row(6)]},
    ]
    assert run.asked == ((), None, 601, True)


@pytest.mark.usefixtures("always_the_same")
def test_an_empty_log_is_sent_too(clock: Clock) -> None:
    assert FollowedRun(clock, (0.0, [])).log() == [{"left": 0, "lines": []}]


@pytest.mark.usefixtures("always_the_same")
def test_lines_beyond_600_are_left_out_and_counted(clock: Clock) -> None:
    run = FollowedRun(
        clock,
        (0.0, [line(n) for n in range(601)]),
        (0.0625, [line(n) for n in range(1000, 1601)]),
        (0.125, [line(n) for n in range(2000, 2002)]),
        (0.5, []),
        (1.0, [line(n) for n in range(3000, 3600)]),
    )
    earlier = {"left": 0, "lines": [], "earlier": "earlier lines: rsctl logs job-aaaaaa"}
    found = run.log()
    assert found[0] == earlier
    assert [
        (each["left"], len(each["lines"]), each["lines"][0][3], each["lines"][-1][3])
        for each in found[1:]
    ] == [
        (0, 600, "line 1", "line 600"),
        (3, 600, "line 1003", "line 2001"),
        (0, 600, "line 3000", "line 3599"),
    ]


@pytest.mark.usefixtures("always_the_same")
@pytest.mark.parametrize(
    ("parameters", "asked"),
    [
        ({"replica": "worker-0"}, (("worker-0",), None)),
        ({"text": "a(b"}, ((), r"(?i:a\(b)")),
        ({"text": "x" * 201}, ((), f"(?i:{'x' * 200})")),
        ({"replica": "", "text": "", "errors": ""}, ((), None)),
    ],
)
def test_the_filter_of_a_log(
    clock: Clock, parameters: dict[str, str], asked: tuple[object, ...]
) -> None:
    run = FollowedRun(clock, (0.0, [line(1), line(2, "stderr")]))
    assert run.log(**parameters) == [{"left": 0, "lines": [row(1), row(2, 1)]}]
    assert run.asked == (*asked, 601, True)


@pytest.mark.usefixtures("always_the_same")
def test_only_errors_and_never_the_telemetry(clock: Clock) -> None:
    telemetry = LogEvent(
        "2026-01-31T12:00:09Z", "w", "9", "stderr", '{"rsctl": "telemetry", "a": 1}'
    )
    run = FollowedRun(clock, (0.0, [line(1), line(2, "stderr"), telemetry]))
    assert run.log(errors="1") == [{"left": 0, "lines": [row(2, 1)]}]


@pytest.mark.usefixtures("always_the_same")
def test_a_long_line_is_cut(clock: Clock) -> None:
    at = "2026-01-31T12:00:09Z"
    cut = [LogEvent(at, "w" * 81, str(n), "stdout", "x" * n) for n in (0, 4000, 4001)]
    [shown] = FollowedRun(clock, (0.0, cut)).log()
    where = f"{'w' * 80} … (81 characters)"
    assert shown["lines"] == [
        ["12:00:09", where, 0, ""],
        ["12:00:09", where, 0, "x" * 4000],
        ["12:00:09", where, 0, f"{'x' * 4000} … (4,001 characters)"],
    ]


def test_a_run_ends_once_its_end_is_recorded(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    views(clock, monkeypatch, 0.0, view(a="1"), view(a="2"), view(a="3"), view(True, a="3"))
    run = FollowedRun(clock, (0.0, [line(1)]), (1.0, []), (1.5, []))
    run.final_after = 3
    log = ("log", {"left": 0, "lines": [row(1)]})
    assert run.events() == [
        update({"a": "1"}, {}),
        log,
        update({"a": "2"}, {}),
        update({"a": "3"}, {}),
        update({}, {}, final=True),
        ("end", {}),
    ]
    assert clock.waits == [1.0]


def test_a_log_that_cannot_be_read_leaves_the_page(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    views(clock, monkeypatch, 0.0, view(a="1"), view(True, a="1"))

    def fail(*_: object, **_options: object) -> Iterator[list[LogEvent]]:
        raise FAILED

    run = FollowedRun(clock)
    run.final_after = 1
    monkeypatch.setattr(run, "log_batches", fail)
    assert run.events() == [
        update({"a": "1"}, {}),
        PROBLEM,
        update({}, {}, final=True),
        ("end", {}),
    ]


@pytest.mark.usefixtures("always_the_same")
def test_a_run_of_a_server_that_stops_is_not_told_as_ended(clock: Clock) -> None:
    clock.end = 1001.0
    run = FollowedRun(clock, (0.0, [line(1)]), (1.0, [line(2)]))
    run.final_after = 9
    assert [name for name, _ in run.events()] == ["parts", "log"]
