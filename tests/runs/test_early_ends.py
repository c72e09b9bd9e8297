"""Which rank left while others waited for it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rsctl.runs.early_ends import RankRecord, early_end, rank_record
from rsctl.runs.stream.events import Failure, LogEvent

VICTIM = Failure(replica="worker-0", rank=0, time="2026-01-31T12:00:05.500000Z", exit_code=1)


def record(kind: str, replica: str, rank: int, second: float, op: str = "all_reduce") -> RankRecord:
    return RankRecord(kind, replica, rank, f"2026-01-31T12:00:{second:09.6f}Z", replica, op)


LOST = record("lost", "worker-0", 0, 5)


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([], None),
        ([LOST], None),
        ([record("exit", "worker-0", 0, 4), LOST], None),
        (
            [record("exit", "worker-1", 1, 4), LOST],
            "worker-1 ended with exit code 0 while worker-0 waited for it in an all-reduce",
        ),
        (
            [LOST, record("exit", "worker-1", 1, 7.9)],
            "worker-1 ended with exit code 0 while worker-0 waited for it in an all-reduce",
        ),
        ([LOST, record("exit", "worker-1", 1, 8.1)], None),
        (
            [record("ending", "worker-1", 1, 5), LOST, record("exit", "worker-1", 1, 9)],
            "worker-1 ended with exit code 0 while worker-0 waited for it in an all-reduce",
        ),
        ([LOST, record("ending", "worker-1", 1, 8.1), record("exit", "worker-1", 1, 9)], None),
        ([LOST, record("left", "worker-1", 1, 5.1)], None),
        (
            # stopped, because of what others lost, while its process was ending
            [record("ending", "worker-1", 1, 4), LOST],
            "worker-1 reached the end of its script while worker-0 waited for it in an all-reduce",
        ),
        ([LOST, record("ending", "worker-1", 1, 5.1)], None),
        (
            [record("left", "worker-1", 1, 5), LOST],
            "worker-1 left the process group while worker-0 waited for it in an all-reduce",
        ),
        (
            [record("left", "worker-1", 1, 5), LOST, record("ending", "worker-1", 1, 5.2)],
            "worker-1 reached the end of its script while worker-0 waited for it in an all-reduce",
        ),
        (
            [record("exit", "worker-0", 1, 4), LOST],
            "rank 1 ended with exit code 0 while rank 0 waited for it in an all-reduce",
        ),
        (
            [record("exit", "worker-2", 2, 4), record("exit", "worker-1", 1, 3)],
            "worker-1 ended with exit code 0 while worker-0 waited for it in a collective "
            "operation",
        ),
        (
            # the one that died of it has not itself reported what it lost
            [record("exit", "worker-1", 1, 4), record("lost", "worker-2", 2, 5, "broadcast")],
            "worker-1 ended with exit code 0 while worker-2 waited for it in a broadcast",
        ),
        # a rank that lost a peer and went on to end well is none that others waited for
        ([record("exit", "worker-1", 1, 5.1), record("lost", "worker-1", 1, 5), LOST], None),
        ([RankRecord("exit", "worker-1", 1, "\nsoon", "worker-1"), LOST], None),
    ],
)
def test_who_left(records: list[RankRecord], message: str | None) -> None:
    found = early_end(records, VICTIM)
    if message is None:
        assert found is None
        return
    assert found is not None
    assert (found.reason, found.exit_code) == (message, 0)
    assert "drop_last=True" in (found.causes[0].remedy or "")


def test_a_victim_without_a_valid_time() -> None:
    victim = Failure(replica="worker-0", time="soon", exit_code=1)
    ended = record("exit", "worker-1", 1, 4)
    assert early_end([ended], victim) is None
    assert early_end([ended, LOST], victim) is not None


def line(**fields: Any) -> LogEvent:
    return LogEvent("2026-01-31T12:00:09.0Z", "worker-1", "0", "stdout", json.dumps(fields))


def test_a_record_in_a_log() -> None:
    fields = {"rank": 1, "time": LOST.time}
    assert rank_record(line(rsctl="exit", code=0, **fields)) == RankRecord(
        "exit", "worker-1", 1, LOST.time, "worker-1"
    )
    brought = rank_record(line(rsctl="lost", op="broadcast", replica="worker-3", **fields))
    assert brought == RankRecord("lost", "worker-3", 1, LOST.time, "worker-1", "broadcast")
    strange = rank_record(line(rsctl="left", rank="1", time=7, replica=7, op="x\n\x1b[2J"))
    assert strange == RankRecord("left", "worker-1", None, "7", "worker-1")
    for other in (line(rsctl="exit", code=3), line(rsctl="metrics"), line(rsctl="exit", code=None)):
        assert rank_record(other) is None
