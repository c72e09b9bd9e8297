"""The permissions of one server: the folder of its job files, whether it may submit, its budget."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from rsctl.api import Budget
from rsctl.findings import ExitCode, RsctlError, error

_ALLOW = "start the server with --allow-submit"
_LONGEST = 80
_FILES = (".json", ".yaml", ".yml")
_ELSEWHERE = ("gs://", "s3://", "git:")


@dataclass(frozen=True)
class Session:
    """A server from its start to its end. `root` is absolute, and the current folder.

    Unless it `may_submit`, no tool starts a job, nor any program of a job. `budget` counts what the
    tools submit.
    """

    root: Path
    may_submit: bool = False
    budget: Budget = field(default_factory=Budget)

    def job_file(self, name: str) -> str:
        """The path of a job file. Raises RsctlError unless it is a file below `root`."""
        try:
            is_file = (self.root / name).is_file()
            is_inside = Path(os.path.realpath(self.root / name)).is_relative_to(self.root)
        except (OSError, ValueError) as problem:  # such as a name that is too long
            shown = repr(name) if len(name) <= _LONGEST else f"{name[:_LONGEST]!r}…"
            finding = error("mcp", f"{shown} is not a path: {problem.args[-1]}", "check the path")
            raise RsctlError(ExitCode.USAGE, finding) from None
        if not is_inside:
            message = f"{name} is outside {self.root}, the folder of this server"
            raise RsctlError(ExitCode.USAGE, error("mcp", message, "name a file in this folder"))
        if not is_file:
            message = f"{name} is not a file in {self.root}"
            raise RsctlError(ExitCode.USAGE, error("mcp", message, "check the path"))
        return name

    def source(self, name: str) -> str:
        """A run, a bench, a git ref, a bucket's URL or a file. Raises RsctlError for a file that is
        not below `root`.
        """
        is_file = name == "-" or name.endswith(_FILES) or os.path.exists(self.root / name)
        return self.job_file(name) if is_file and not name.startswith(_ELSEWHERE) else name

    def is_job_file(self, name: str) -> bool:
        """Whether a source is a job file, and not a bench."""
        return name.endswith(_FILES) or os.path.isfile(self.root / name)

    def require_submit(self, what: str) -> None:
        """Raise RsctlError unless the server may start jobs."""
        if not self.may_submit:
            message = f"{what}, and this server is read-only"
            raise RsctlError(ExitCode.USAGE, error("mcp", message, _ALLOW))
