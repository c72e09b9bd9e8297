"""Errors for which a job cannot start on this node, with a remedy and an exit code."""

from __future__ import annotations

USAGE = 2
"""The arguments or the environment make no sense."""

ENVIRONMENT = 3
"""The image lacks something."""

TEMPORARY = 75
"""It may go well the next time (EX_TEMPFAIL)."""

CONFIGURATION = 78
"""The job asks for what cannot be had here (EX_CONFIG)."""


class LaunchError(Exception):
    """The job cannot start. `code` names the kind of problem, as in rsctl's own findings."""

    def __init__(self, exit_code: int, code: str, message: str, remedy: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.code = code
        self.message = message
        self.remedy = remedy

    def finding(self) -> dict[str, object]:
        """The fields of the `finding` line for the user."""
        return {
            "severity": "error",
            "code": self.code,
            "message": self.message,
            "remedy": self.remedy,
        }
