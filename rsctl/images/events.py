"""Events of a running build: steps, lines of output, findings; the same for every builder."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from rsctl.findings import Finding
from rsctl.runs.stream.metrics import structured
from rsctl.runs.stream.sanitize import sanitize_line

_MAX_TEXT = 2000  # characters of a text of a finding
_KEPT_FIELDS = ("severity", "code", "message", "remedy", "path")  # not that it points into files


class BuildStep(msgspec.Struct, frozen=True):
    """A step has started, or has ended if `seconds` is not None; if it was cached, it only ends.

    `number` counts from 1 up to `total`; both are 0 for a step that is in no Dockerfile, such as
    `exporting to image`.
    """

    number: int
    total: int
    instruction: str
    cached: bool = False
    seconds: float | None = None
    failed: bool = False


class BuildOutput(NamedTuple):
    """A line from inside a step, or of the builder itself if `step` is 0."""

    line: str
    step: int = 0


BuildEvent = BuildStep | BuildOutput | Finding

Show = Callable[[BuildEvent], None]
"""Shows the user an event of a build."""


class CheckedShow(msgspec.Struct, frozen=True):
    """A `Show` with a check that raises if the build must end, also while its step is silent."""

    show: Show
    check: Callable[[], None]

    def __call__(self, event: BuildEvent) -> None:
        """Check, then show the event."""
        self.check()
        self.show(event)


def check_build(show: Show) -> None:
    """Raise the error of a `CheckedShow` if the build must end."""
    if isinstance(show, CheckedShow):
        show.check()


def output_or_finding(line: str, step: int) -> BuildOutput | Finding:
    """A line of a step's output, or the finding that an rsctl command in the build has printed."""
    record = structured(line)
    if not record or record["rsctl"] != "finding":
        return BuildOutput(line, step)
    fields = {key: _sanitized(record[key]) for key in _KEPT_FIELDS if key in record}
    try:
        return msgspec.convert(fields, Finding)
    except msgspec.ValidationError:
        return BuildOutput(line, step)


def one_line(instruction: str) -> str:
    """An instruction with its continued lines as one, without its mounts."""
    return re.sub(r"\s+", " ", re.sub(r"--mount=\S+\s+", "", instruction)).strip()


def _sanitized(value: object) -> object:
    """Text from inside a build on one line, of bounded length and fit for a terminal."""
    return sanitize_line(" ".join(value.split()))[:_MAX_TEXT] if isinstance(value, str) else value
