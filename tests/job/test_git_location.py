"""Files of a repository, by git:REF:PATH."""

from __future__ import annotations

import re

import pytest

from rsctl.job.git_location import parse_git_location


@pytest.mark.parametrize(
    ("location", "ref", "path"),
    [
        ("git:origin/main:bench/baseline.json", "origin/main", "bench/baseline.json"),
        ("git:HEAD~3:a", "HEAD~3", "a"),
        ("git:@{u}:.github/a:b", "@{u}", ".github/a:b"),
    ],
)
def test_a_ref_and_a_path(location: str, ref: str, path: str) -> None:
    assert parse_git_location(location) == (ref, path)


@pytest.mark.parametrize(
    "rest",
    [
        *("", "HEAD", "HEAD:", ":a", "-x:a", "--all:a", "a b:c", "HEAD:/a", "HEAD:-a", "HEAD:a//b"),
        *("HEAD:./a", "HEAD:../a", "HEAD:a/..", "HEAD:a/.git/config", "HEAD:.GIT", "HEAD:a\0"),
    ],
)
def test_what_leaves_the_repository_or_is_an_option(rest: str) -> None:
    message = f"{f'git:{rest}'!r} is not in the form git:REF:PATH"
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_git_location(f"git:{rest}")
