"""Why a job cannot start here: what is wrong, what to do, and the exit code to end with."""

from __future__ import annotations

USAGE = 2
"""The caller gave no sense: arguments or environment."""

ENVIRONMENT = 3
"""The image lacks something."""

TEMPORARY = 75
"""It may go well the next time (EX_TEMPFAIL)."""

CONFIGURATION = 78
"""The job asks for what cannot be had here (EX_CONFIG)."""


class Refusal(Exception):
    """The job cannot start. `code` names the kind of problem, as in rsctl's own findings."""

    def __init__(self, exit_code: int, code: str, message: str, remedy: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.code = code
        self.message = message
        self.remedy = remedy

    def finding(self) -> dict[str, object]:
        """The fields of the `finding` line that tells the user."""
        return {
            "severity": "error",
            "code": self.code,
            "message": self.message,
            "remedy": self.remedy,
        }
