"""`.gitignore` as git reads it, for source folders without a `.dockerignore`.

Rules by https://git-scm.com/docs/gitignore: the last pattern that matches decides, files in deeper
folders come after files above, and the content of an excluded folder cannot be included again.
Files that git tracks are never ignored. Patterns of one machine alone (`core.excludesFile`,
`.git/info/exclude`) do not count, or an image would depend on the machine that builds it.
"""

from __future__ import annotations

import os
import re
import stat
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from rsctl.images.git_index import tracked_files

NAMED = "named in .gitignore"
"""Why a file is left out."""

_FILE = ".gitignore"
_LARGEST = 1 << 20
_CLASSES = {
    b"alnum": rb"0-9A-Za-z",
    b"alpha": rb"A-Za-z",
    b"blank": rb" \t",
    b"cntrl": rb"\x00-\x1f\x7f",
    b"digit": rb"0-9",
    b"graph": rb"!-~",
    b"lower": rb"a-z",
    b"print": rb" -~",
    b"punct": rb"!-/:-@\[-`{-~",
    b"space": rb" \t\n\r\x0b\x0c",
    b"upper": rb"A-Z",
    b"xdigit": rb"0-9A-Fa-f",
}


class _Rule(NamedTuple):
    """One pattern, for names or for paths below its file's folder."""

    pattern: re.Pattern[bytes]
    is_excluded: bool
    folders_only: bool
    by_path: bool


class Gitignore:
    """Which files of a source folder git ignores; ask for folders before their content."""

    def __init__(self, source: Path) -> None:
        self._source = source
        self._top, self._prefix = work_tree_of(source)
        self._begins = ""  # the folder whose rules are the first that count
        self._rules: dict[str, list[_Rule]] = {}
        self._ignored: set[str] = set()
        above = [self._prefix, *_parents(self._prefix)[:-1]] if self._prefix else []
        if any(self._is_matched(folder, True) for folder in above):
            self._begins = self._prefix  # the source itself is ignored, but rsctl needs it anyway

    @cached_property
    def _tracked(self) -> set[str]:
        """The tracked files below the source, and their folders; read once a pattern excludes."""
        tracked = tracked_files(self._top) if self._top is not None else frozenset()
        start = f"{self._prefix}/" if self._prefix else ""
        files = {path for path in tracked if path.startswith(start)}
        return files | {each for path in files for each in _parents(path)}

    def exclusion(self, path: str, is_folder: bool) -> str | None:
        """Why a path, relative to the source and with `/`, is excluded; None if it is not."""
        whole = f"{self._prefix}/{path}" if self._prefix else path
        parent = whole.rpartition("/")[0]
        if parent not in self._ignored and not self._is_matched(whole, is_folder):
            return None
        if is_folder:
            self._ignored.add(whole)
        return None if whole in self._tracked else NAMED

    def _is_matched(self, whole: str, is_folder: bool) -> bool:
        """Whether the patterns exclude a path of the work tree, regardless of its folders."""
        name = os.fsencode(whole.rpartition("/")[2])
        for folder in _parents(whole):
            if len(folder) < len(self._begins):
                break
            below = os.fsencode(whole[len(folder) + 1 :] if folder else whole)
            for rule in reversed(self._rules_of(folder)):
                if rule.folders_only and not is_folder:
                    continue
                if rule.pattern.fullmatch(below if rule.by_path else name):
                    return rule.is_excluded
        return False

    def _rules_of(self, folder: str) -> list[_Rule]:
        if folder not in self._rules:
            top = self._top or self._source
            self._rules[folder] = _rules(_text(top / folder / _FILE))
        return self._rules[folder]


def _parents(path: str) -> list[str]:
    """The folders above a path, the nearest first; the last one is the work tree itself."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1)] + [""]


def work_tree_of(source: Path) -> tuple[Path | None, str]:
    """The work tree that a folder belongs to, None without one, and the folder's path in it."""
    whole = Path(os.path.realpath(source))
    for folder in (whole, *whole.parents):
        if os.path.lexists(folder / ".git"):
            relative = whole.relative_to(folder).as_posix()
            return folder, "" if relative == "." else relative
    return None, ""


def _text(path: Path) -> bytes:
    """A file's content; empty for a link, which git does not follow, and for anything that is not a
    file.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    with os.fdopen(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return b""
        return opened.read(_LARGEST)


def _rules(text: bytes) -> list[_Rule]:
    rules = []
    for line in text.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        rule = None if line.startswith(b"#") else _rule(_trimmed(line.removesuffix(b"\r")))
        if rule is not None:
            rules.append(rule)
    return rules


def _trimmed(line: bytes) -> bytes:
    """Without the spaces at the end, except one after a backslash."""
    end = 0
    while end < len(line):
        if line[end : end + 1] == b"\\":
            end += 2
            continue
        rest = line[end:]
        if not rest.strip(b" "):
            return line[:end]
        end += 1
    return line


def _rule(line: bytes) -> _Rule | None:
    is_excluded = not line.startswith(b"!")
    pattern = line if is_excluded else line[1:]
    folders_only = pattern.endswith(b"/")
    pattern = pattern.removesuffix(b"/")
    by_path = b"/" in pattern
    pattern = pattern.removeprefix(b"/")
    if not pattern:
        return None
    expression = _translated(pattern, by_path)
    if expression is None:
        return None
    return _Rule(re.compile(expression, re.DOTALL), is_excluded, folders_only, by_path)


def _translated(pattern: bytes, by_path: bool) -> bytes | None:
    """A pattern of git's wildmatch as a regular expression; None if it never matches."""
    out, at = b"", 0
    while at < len(pattern):
        char = pattern[at : at + 1]
        if char == b"*":
            part, at = _stars(pattern, at, by_path)
        elif char == b"?":
            part, at = (b"[^/]" if by_path else b"."), at + 1
        elif char == b"[":
            bracket = _bracket(pattern, at)
            if bracket is None:
                return None
            part, at = (b"(?!/)" if by_path else b"") + bracket[0], bracket[1]
        else:
            char, at = _character(pattern, at)
            if not char:
                return None
            part = re.escape(char)
        out += part
    return out


def _stars(pattern: bytes, start: int, by_path: bool) -> tuple[bytes, int]:
    """The expression for `*` or `**`, and where the rest begins.

    `**` matches folders only where it is a whole part of a path; elsewhere it is a `*`.
    """
    end = start
    while pattern[end : end + 1] == b"*":
        end += 1
    if not by_path:
        return b".*", end
    begins_part = start == 0 or pattern[start - 1 : start] == b"/"
    ends_part = pattern[end : end + 1] in (b"", b"/")
    if end - start == 1 or not (begins_part and ends_part):
        return b"[^/]*", end
    if end == len(pattern):
        return (b".*" if start == 0 else b".+"), end
    return b"(?:.*/)?", end + 1


def _character(pattern: bytes, at: int) -> tuple[bytes, int]:
    """The character here, without the backslash before it, and where the rest begins.

    It is empty at the pattern's end.
    """
    if pattern[at : at + 1] == b"\\":
        at += 1
    return pattern[at : at + 1], at + 1


def _bracket(pattern: bytes, start: int) -> tuple[bytes, int] | None:
    """The expression for `[...]` and where the rest begins; None if it has no end."""
    at, chars = start + 1, b""
    negated = pattern[at : at + 1] in (b"!", b"^")
    at += negated
    first, low = at, b""  # a ] that comes first is one of the characters
    while at == first or pattern[at : at + 1] != b"]":
        if pattern[at : at + 2] == b"[:":
            end = pattern.find(b":]", at + 2)
            if end < 0 or pattern[at + 2 : end] not in _CLASSES:
                return None
            chars, at, low = chars + _CLASSES[pattern[at + 2 : end]], end + 2, b""
            continue
        is_range = low and pattern[at : at + 1] == b"-" and pattern[at + 1 : at + 2] != b"]"
        char, at = _character(pattern, at + 1 if is_range else at)
        if not char:
            return None
        if not is_range:
            chars, low = chars + _hex(char), char
            continue
        if low <= char:
            chars += b"%s-%s" % (_hex(low), _hex(char))
        low = b""
    if not chars:
        return (b"." if negated else b"(?!)"), at + 1
    return b"[" + (b"^" if negated else b"") + chars + b"]", at + 1


def _hex(char: bytes) -> bytes:
    return b"\\x%02x" % char[0]
