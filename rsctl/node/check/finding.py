"""Findings of a check of the image; `structured_lines.emit("finding", ...)` prints them."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """One problem, with the fields of rsctl's own findings.

    `severity` is error, warning or note; `code` names the kind of problem.
    """

    severity: str
    code: str
    message: str
    remedy: str | None = None

    @property
    def is_error(self) -> bool:
        """Whether the image cannot be used as it is."""
        return self.severity == "error"
