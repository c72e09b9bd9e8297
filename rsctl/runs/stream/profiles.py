"""The summaries of profiles in the log, which ranks and nodes print."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Optional

import msgspec
from msgspec import Meta

from rsctl.runs.stream.events import LogEvent
from rsctl.runs.stream.sanitize import sanitize_line
from rsctl.runs.stream.structured import converted, record_of

_MOST_OPERATIONS = 20
_LONGEST = 200
_FOLDERS = re.compile(r"\(/[^()]*/")  # of a function's file
_Part = Annotated[float, Meta(ge=0, le=1)]


class RankProfile(msgspec.Struct, frozen=True, kw_only=True):
    """The summary of a rank's profile.

    `steps` are its first and last step, None for the whole run; `file` is its place in the outputs.
    `top` are the operations or functions with the most time of their own, each with its part;
    `communication` is the part of the time in which the rank communicated, None if unknown.
    """

    tool: Literal["torch", "py-spy", "nsys"]
    rank: Annotated[int, Meta(ge=0, lt=1 << 16)]
    file: str
    steps: Optional[str] = None
    communication: Optional[_Part] = None
    top: Annotated[list[tuple[str, _Part]], Meta(max_length=_MOST_OPERATIONS)] = []

    def describe(self) -> str:
        """A sentence with the communication and the first operations."""
        steps = f"steps {self.steps}" if self.steps else "the whole run"
        text = f"profile of rank {self.rank} ({self.tool}, {steps})"
        if self.communication is not None:
            text += f": {self.communication:.0%} communication"
        if self.top:
            most = (f"{_FOLDERS.sub('(', name)} {part:.0%}" for name, part in self.top[:3])
            text += f"; most time in {', '.join(most)}"
        return f"{text}; {self.file}"


def reported_profile(line: LogEvent) -> RankProfile | None:
    """The summary in a line of the runtime; None for other lines.

    Any program can print such a line: a line of another form is ignored, and texts become one line.
    """
    return profile_of(record_of(line.text, "profile"))


def profile_of(record: dict[str, Any]) -> RankProfile | None:
    """The summary in a structured line; None if it has another form."""
    found = converted(record, RankProfile)
    return found and msgspec.structs.replace(
        found,
        file=_clean(found.file),
        steps=None if found.steps is None else _clean(found.steps),
        top=[(_clean(name), part) for name, part in found.top],
    )


def _clean(text: str) -> str:
    return sanitize_line(text[:_LONGEST])
