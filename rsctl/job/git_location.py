"""git:REF:PATH, a file of a commit: baselines and histories may lie there."""

from __future__ import annotations

import re
from typing import NamedTuple

GIT = "git:"
"""The prefix of such a location."""

REF = re.compile(r"[A-Za-z0-9_@][A-Za-z0-9_./@{}^~+-]*")
"""A git ref: a branch, a tag, a commit, or an expression such as `HEAD~3`; never an option."""

EXAMPLE = (
    "for example git:origin/main:bench/baseline.json; PATH is relative to the repository's root"
)


class GitLocation(NamedTuple):
    """A ref, and a path relative to the top of the repository."""

    ref: str
    path: str


def parse_git_location(location: str) -> GitLocation:
    """The parts of git:REF:PATH. Raises ValueError, also for a path that leaves the repository."""
    _, ref, path = [*location.split(":", 2), "", ""][:3]
    parts = path.lower().split("/")
    is_inside = path and path[0] not in "/-" and not {"", ".", "..", ".git"} & {*parts}
    if not REF.fullmatch(ref) or not is_inside or "\0" in path:
        raise ValueError(f"{location!r} is not in the form git:REF:PATH")
    return GitLocation(ref, path)
