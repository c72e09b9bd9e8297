"""`.dockerignore`, as docker reads it, and what is never copied into an image."""

from __future__ import annotations

import re
from pathlib import Path

ALWAYS = (
    ".git",
    "**/__pycache__",
    "**/*.pyc",
    "**/.venv",
    "**/venv",
    "**/.env",
    "**/.env.*",
    "**/.netrc",
    "**/.aws",
    "**/.ssh",
    "**/.config/gcloud",
    "**/*.pem",
    "**/.DS_Store",
    "**/.mypy_cache",
    "**/.ruff_cache",
    "**/.pytest_cache",
    "**/node_modules",
)


class Ignore:
    """Which files of a source folder stay out of the image.

    The last pattern that matches decides; `!pattern` takes a file back in. What `ALWAYS` names
    stays out unless `.dockerignore` itself takes it back in.
    """

    def __init__(self, lines: list[str]) -> None:
        self._rules = [rule for line in (*ALWAYS, *lines) if (rule := _rule(line))]
        self.can_return = any(keep for keep, _ in self._rules)

    @classmethod
    def of(cls, source: Path) -> Ignore:
        """The rules of a folder; without a `.dockerignore` only the built-in ones."""
        try:
            text = (source / ".dockerignore").read_text(errors="replace")
        except OSError:
            text = ""
        return cls(text.splitlines())

    def leaves_out(self, path: str) -> bool:
        """Whether a path, relative and with `/`, stays out; a folder takes its content along."""
        out = False
        for keep, pattern in self._rules:
            if pattern.match(path):
                out = not keep
        return out


def _rule(line: str) -> tuple[bool, re.Pattern[str]] | None:
    text = line.strip()
    if not text or text.startswith("#"):
        return None
    keep = text.startswith("!")
    pattern = text.removeprefix("!").strip().strip("/").removeprefix("./")
    return (keep, re.compile(_translated(pattern) + r"(?:/.*)?\Z", re.DOTALL)) if pattern else None


def _translated(pattern: str) -> str:
    """Go's filepath.Match with `**` for any number of folders."""
    out = []
    for part in re.findall(r"\*\*/?|\*|\?|\[[^\]]*\]|\\.|.", pattern):
        if part == "**/":
            out.append("(?:.*/)?")
        elif part == "**":
            out.append(".*")
        elif part == "*":
            out.append("[^/]*")
        elif part == "?":
            out.append("[^/]")
        elif part.startswith("[") and len(part) > 2:
            out.append(part.replace("[!", "[^"))
        else:
            out.append(re.escape(part[-1]))
    return "".join(out)
