"""`.dockerignore` as docker reads it, after the patterns that are always excluded."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from rsctl.findings import ExitCode, Finding, RsctlError
from rsctl.images.exclusions import CREDENTIALS, EXCLUDED_NAMES

NAMED = "named in .dockerignore"
"""Why a file is left out."""

_ANY_FOLDER = "(?:.*/)?"
_PART = re.compile(r"\*\*/?|\*|\?|\[[^\]]*\]|\\.|.", re.DOTALL)
_SUFFIX = re.compile(r"\*\*([^/*?\[\]\\][^*?\[\]\\]*)")


class Dockerignore:
    """Which files of a source folder are excluded from the image.

    The last pattern that matches decides; `!pattern` includes a file again. `EXCLUDED_NAMES` are
    excluded unless a pattern includes them by their names: `!src` and `!src/**` do not mean
    `src/.env`. Raises RsctlError for a pattern that docker would not take.
    """

    def __init__(self, lines: list[str], file: str = ".dockerignore") -> None:
        self._rules: list[tuple[str | None, re.Pattern[str]]] = []
        for number, line in enumerate(lines, start=1):
            try:
                self._rules += [(NAMED if out else None, rule) for out, rule in _rules(line)]
            except re.error:
                raise _invalid_pattern(line, file, number) from None
        self.can_return = any(reason is None for reason, _ in self._rules)

    @classmethod
    def of(cls, source: Path) -> Dockerignore:
        """The rules of a folder; without a `.dockerignore` only the built-in ones."""
        return cls.from_file(source / ".dockerignore")

    @classmethod
    def from_file(cls, file: Path) -> Dockerignore:
        """The rules of an ignore file; without it only the built-in ones. Raises OSError."""
        try:
            text = file.read_text(encoding="utf-8-sig", errors="replace")
        except FileNotFoundError:
            text = ""
        return cls(text.splitlines(), str(file))

    def exclusion(self, path: str) -> str | None:
        """Why a path, relative and with `/`, is excluded; None if it is not."""
        name, always = _excluded_name(path), None
        other = name and _renamed(path, name.depth)
        for reason, pattern in reversed(self._rules):
            if not pattern.match(path):
                continue
            if reason is None and name and other and pattern.match(other):
                always = name.reason
                continue
            return reason and (always or reason)
        return name and name.reason

    def is_included(self, path: str) -> bool:
        """Whether `.dockerignore` includes a path by its name, if that is not excluded."""
        if not self.can_return:
            return False
        other = _renamed(path, path.count("/"), posixpath.splitext(path)[1])
        return _excluded_name(path) is not None or any(
            reason is None and pattern.match(path) and not pattern.match(other)
            for reason, pattern in self._rules
        )


class _ExcludedName(NamedTuple):
    """The name in a path that is excluded, after so many slashes, and why."""

    depth: int
    reason: str


def _excluded_name(path: str) -> _ExcludedName | None:
    """The first of a path's names that is one of `EXCLUDED_NAMES`."""
    if not any(pattern.match(path) for _, pattern in _built_in()):
        return None
    parts = path.split("/")
    return next(
        _ExcludedName(depth, reason)
        for depth in range(len(parts))
        for reason, pattern in _built_in()
        if pattern.match("/".join(parts[: depth + 1]))
    )


def _renamed(path: str, depth: int, ending: str = "") -> str:
    """The path with another name there: a pattern that matches both does not mean the name."""
    parts = path.split("/")
    parts[depth] = f"\0{ending}"
    return "/".join(parts)


@cache
def _built_in() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """The rules of `EXCLUDED_NAMES`."""
    return tuple(
        (reason, _compiled(_any_of(names), re.IGNORECASE if reason == CREDENTIALS else 0))
        for reason, names in groupby(EXCLUDED_NAMES, key=EXCLUDED_NAMES.__getitem__)
    )


def _rules(line: str) -> Iterator[tuple[bool, re.Pattern[str]]]:
    """The rule of a line, if it is one: whether it excludes, and its pattern."""
    text = line.strip()
    if not text or line.startswith("#"):
        return
    pattern = posixpath.normpath(text.removeprefix("!").strip()).lstrip("/")
    if pattern not in ("", "."):
        yield not text.startswith("!"), _compiled(_translated(pattern))


def _compiled(expression: str, flags: int = 0) -> re.Pattern[str]:
    """The paths that match a pattern, and all paths below them."""
    return re.compile(rf"(?:{expression})(?:/.*)?\Z", re.DOTALL | flags)


def _any_of(patterns: Iterable[str]) -> str:
    """The names that match any pattern; shared parent folders are checked only once."""
    by_depth: dict[str, list[str]] = {"": [], _ANY_FOLDER: []}
    for pattern in patterns:
        expression = _translated(pattern)
        folder = _ANY_FOLDER if expression.startswith(_ANY_FOLDER) else ""
        by_depth[folder].append(expression.removeprefix(folder))
    return "|".join(f"{folder}(?:{'|'.join(each)})" for folder, each in by_depth.items() if each)


def _translated(pattern: str) -> str:
    """Go's filepath.Match, with `**` for any number of folders; `**.x` matches everything that ends
    in `.x`.
    """
    suffix = _SUFFIX.fullmatch(pattern)
    if suffix:
        return ".*" + re.escape(suffix[1])
    parts = _PART.findall(pattern)
    return "".join(_expression(part, i == len(parts) - 1) for i, part in enumerate(parts))


def _expression(part: str, is_last: bool) -> str:
    if part.startswith("**"):
        return ".*" if is_last else _ANY_FOLDER
    if part in "*?":
        return "[^/]*" if part == "*" else "[^/]"
    if part.startswith("["):
        return "[" + re.sub(r"([\[&|~])", r"\\\1", part[1:])
    return re.escape(part[-1])


def _invalid_pattern(line: str, file: str, number: int) -> RsctlError:
    return RsctlError(
        ExitCode.USAGE,
        Finding(
            severity="error",
            code="dockerignore",
            message=f"docker does not accept the pattern {line.strip()!r}",
            remedy="correct it, or put a backslash before a literal special character",
            file=file,
            line=number,
            column=1,
        ),
    )
