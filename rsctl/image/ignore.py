"""`.dockerignore`, as docker reads it, and what is never copied into an image."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from rsctl.findings import ExitCode, Finding, RsctlError

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
_PART = re.compile(r"\*\*/?|\*|\?|\[[^\]]*\]|\\.|.", re.DOTALL)
_SUFFIX = re.compile(r"\*\*([^/*?\[\]\\][^*?\[\]\\]*)")


class Ignore:
    """Which files of a source folder stay out of the image.

    The last pattern that matches decides; `!pattern` takes a file back in. What `ALWAYS` names
    stays out unless `.dockerignore` itself takes it back in. Raises RsctlError for a pattern that
    docker would not take.
    """

    def __init__(self, lines: list[str], file: str = ".dockerignore") -> None:
        self._rules = [rule for pattern in ALWAYS for rule in _rules(pattern)]
        for number, line in enumerate(lines, start=1):
            try:
                self._rules += _rules(line)
            except re.error:
                raise _no_pattern(line, file, number) from None
        self.can_return = any(keep for keep, _ in self._rules)

    @classmethod
    def of(cls, source: Path) -> Ignore:
        """The rules of a folder; without a `.dockerignore` only the built-in ones."""
        file = source / ".dockerignore"
        try:
            text = file.read_text(encoding="utf-8-sig", errors="replace")
        except FileNotFoundError:
            text = ""
        return cls(text.splitlines(), str(file))

    def leaves_out(self, path: str) -> bool:
        """Whether a path, relative and with `/`, stays out; a folder takes its content along."""
        out = False
        for keep, pattern in self._rules:
            if pattern.match(path):
                out = not keep
        return out


def _rules(line: str) -> Iterator[tuple[bool, re.Pattern[str]]]:
    """The rule of a line, if it is one: whether it takes back in, and what it is about."""
    text = line.strip()
    if not text or line.startswith("#"):
        return
    pattern = posixpath.normpath(text.removeprefix("!").strip()).lstrip("/")
    if pattern not in ("", "."):
        below = r"(?:/.*)?\Z"
        yield text.startswith("!"), re.compile(_translated(pattern) + below, re.DOTALL)


def _translated(pattern: str) -> str:
    """Go's filepath.Match, with `**` for any number of folders; `**.x` is whatever ends in `.x`."""
    suffix = _SUFFIX.fullmatch(pattern)
    if suffix:
        return ".*" + re.escape(suffix[1])
    parts = _PART.findall(pattern)
    return "".join(_expression(part, i == len(parts) - 1) for i, part in enumerate(parts))


def _expression(part: str, is_last: bool) -> str:
    if part.startswith("**"):
        return ".*" if is_last else "(?:.*/)?"
    if part in "*?":
        return "[^/]*" if part == "*" else "[^/]"
    if part.startswith("["):
        return "[" + re.sub(r"([\[&|~])", r"\\\1", part[1:])
    return re.escape(part[-1])


def _no_pattern(line: str, file: str, number: int) -> RsctlError:
    return RsctlError(
        ExitCode.USAGE,
        Finding(
            severity="error",
            code="dockerignore",
            message=f"docker does not take the pattern {line.strip()!r}",
            remedy="correct it, or put a backslash before a character that is meant literally",
            file=file,
            line=number,
            column=1,
        ),
    )
