"""Why no connection came about, in one sentence."""

from __future__ import annotations

import re

_PLACE = re.compile(r"^\w+\(host=[^)]*\): ")  # urllib3's, of a host that the message names already
_LONGEST = 500


def innermost(problem: BaseException) -> str:
    """The reason below the layers that requests and urllib3 wrap around it."""
    while below := _below(problem):
        problem = below
    return (_PLACE.sub("", str(problem)) or type(problem).__name__)[:_LONGEST]


def _below(problem: BaseException) -> BaseException | None:
    inside = (getattr(problem, "reason", None), *problem.args)
    return next((part for part in inside if isinstance(part, BaseException)), None)
