"""Which rank wrote a line, where several share a replica's log."""

from __future__ import annotations

import pytest

from rsctl.runs.stream.rank_marks import leading_mark, take_mark, with_mark, without_marks


@pytest.mark.parametrize(
    ("replica", "line", "rank", "text"),
    [
        ("worker-1", "[worker-1/3] loss=1", "worker-1/3", "loss=1"),
        ("worker-1", "[worker-1/3]", "worker-1/3", ""),
        ("worker-1", "[worker-1/3]x", None, "[worker-1/3]x"),
        ("worker-1", "[worker-2/3] x", None, "[worker-2/3] x"),
        ("worker-0", "[worker-2/3] x", "worker-2/3", "x"),  # which mpirun has brought
        ("worker-0", "[reducer-2/3] x", None, "[reducer-2/3] x"),
        ("worker-0", "[ 3] x", None, "[ 3] x"),
        ("worker-0", "x [worker-0/1] y", None, "x [worker-0/1] y"),
        ("worker-0", "[worker-123456/1] y", None, "[worker-123456/1] y"),
        ("worker-0", '{"a": 1}', None, '{"a": 1}'),
        ("worker-0", "", None, ""),
    ],
)
def test_the_mark_of_a_line(replica: str, line: str, rank: str | None, text: str) -> None:
    assert take_mark(replica, line) == (rank, text)


def test_a_mark_is_read_as_it_is_written() -> None:
    assert take_mark("worker-3", with_mark("worker-3/1", "a [b] c")) == ("worker-3/1", "a [b] c")


def test_the_mark_of_a_structured_line_is_its_last_key() -> None:
    from rsctl.runs.stream.rank_marks import _KEY

    line = f'{{"rsctl": "metrics", "loss": 1{_KEY}worker-1/2"}}'
    bare = '{"rsctl": "metrics", "loss": 1}'
    assert take_mark("worker-1", line) == ("worker-1/2", bare)
    assert take_mark("worker-2", line) == (None, line)
    assert take_mark("worker-0", line) == ("worker-1/2", bare)
    broken = line.replace("worker-1/2", "worker-x")
    assert take_mark("worker-0", broken) == (None, broken)


@pytest.mark.parametrize(
    ("line", "mark"),
    [
        (b"[worker-0/1] a", b"[worker-0/1] "),
        (b"[worker-0/1]", b""),
        (b"a [worker-0/1] b", b""),
        (b"", b""),
    ],
)
def test_the_mark_that_a_line_of_bytes_begins_with(line: bytes, mark: bytes) -> None:
    assert leading_mark(line) == mark


def test_lines_without_their_marks() -> None:
    lines = "[worker-0/1] a\nb\n[worker-0/2] [worker-0/3] c\n[worker-1/0]\nx [worker-0/1] y"
    assert without_marks(lines) == "a\nb\n[worker-0/3] c\n\nx [worker-0/1] y"
    assert without_marks("[x] a") == "[x] a"
