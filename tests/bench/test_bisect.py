"""The order of a bisection: every first bad commit is found, and what is skipped is said."""

from __future__ import annotations

import pytest

from rsctl.bench.bisect import Mark, Remaining, remaining


def search(
    count: int, first_bad: int, broken: frozenset[int] = frozenset()
) -> tuple[Remaining, int]:
    """The end of a search, and how many commits it tested."""
    marks: dict[int, Mark] = {}
    while (now := remaining(count, marks)).next is not None:
        assert now.next not in marks
        if now.next in broken:
            marks[now.next] = Mark.SKIPPED
        else:
            marks[now.next] = Mark.BAD if now.next >= first_bad else Mark.GOOD
    return now, len(marks)


@pytest.mark.parametrize("count", [2, 3, 4, 7, 16, 33])
def test_each_first_bad_commit_is_found(count: int) -> None:
    for first_bad in range(1, count):
        end, tests = search(count, first_bad)
        assert list(end.suspects) == [first_bad]
        assert tests <= (count - 1).bit_length()


@pytest.mark.parametrize("broken", [{5}, {4, 5, 6}, {1}, {8}, set(range(1, 9))])
def test_skipped_commits_remain_suspects(broken: set[int]) -> None:
    for first_bad in range(1, 10):
        end, _ = search(10, first_bad, frozenset(broken))
        assert first_bad in end.suspects
        assert set(end.suspects) <= broken | {end.bad}
        is_hidden = bool({first_bad, first_bad - 1} & broken)
        assert (len(end.suspects) > 1) == is_hidden


def test_what_is_next_is_the_middle_of_what_is_open() -> None:
    assert remaining(9, {}) == Remaining(0, 8, 4, 3)
    assert remaining(9, {4: Mark.SKIPPED}).next == 3
    assert remaining(9, {4: Mark.SKIPPED, 3: Mark.SKIPPED}).next == 5
    assert remaining(9, {4: Mark.BAD}) == Remaining(0, 4, 2, 2)
    assert remaining(9, {4: Mark.GOOD}) == Remaining(4, 8, 6, 2)
    assert remaining(2, {}) == Remaining(0, 1, None, 0)
