"""The regex of one metric: the numbers that it finds, and the numbers that it misses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional

from rsctl.runs.stream.cpu_limit import CpuLimit
from rsctl.runs.stream.sanitize import without_escapes

_LITERAL = re.compile(r"\D{1,24}\Z")
_STRANGE = r"\s*([-+]?(?:nan|inf(?:inity)?)(?![\w.]))"
_MAY_BE_STRANGE = re.compile("nan|inf", re.IGNORECASE)
_DECIMAL = re.compile(r"[-+]?[0-9.]+")
_EXPONENT = re.compile(r"[eE][-+]?[0-9]+(?!\w|\.[0-9])")
_MORE = re.compile(r"(?:\.[0-9]+|(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?)")
_THOUSANDS = re.compile(r"\s*[-+]?[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]+)?\s*")
_OVERLAP = 256  # characters

WINDOW = 4096
"""Characters of a line that a user's regex is matched against at once. Its time may grow with the
square of this, or worse."""


class MatchedNumber(NamedTuple):
    """A number in a line, with its step if the line has one."""

    value: float
    step: Optional[float]


class Pattern:
    """A metric's regex, and its remaining CPU time: `limit`, and `rest_limit` for the rest of long
    lines, which it reads while `reads_rest`.

    An exponent right after the number belongs to it: `([0-9.]+)` reads all of 6.3e-05. `cut` is the
    first number that the regex ends in the middle of, such as 1 of 1,234.5, and the whole one.
    `no_number` is the first matched text that is not a number. `missed` is the first NaN or
    infinity in the place of the number that the regex does not match: a group such as `([0-9.]+)`
    cannot match it.
    """

    def __init__(self, name: str, regex: str) -> None:
        self.name = name
        self.no_number: str | None = None
        self.missed: str | None = None
        self.cut: tuple[str, str] | None = None
        self.limit = CpuLimit()
        self.rest_limit = CpuLimit()
        self.reads_rest = True
        self._compiled = re.compile(regex)
        self._group = _value_group(self._compiled)
        self._strange: re.Pattern[str] | None = None

    def is_in(self, texts: Sequence[str]) -> bool:
        """Whether any of these texts has a match in its first window, or a missed number."""
        return any(self._compiled.search(text) or self._misses(text) for text in texts)

    def read(self, text: str) -> Iterator[MatchedNumber]:
        """The numbers in the first window of a line."""
        plain = without_escapes(text)
        matches, _ = self._window(plain, 0)
        if not matches and plain != text:  # a regex may be written for what the script prints
            plain = text
            matches, _ = self._window(plain, 0)
        yield from self._numbers(plain, matches)
        if not matches and self.missed is None:
            self.missed = self._misses(plain[:WINDOW])

    def read_rest(self, text: str) -> Iterator[MatchedNumber]:
        """The numbers in the other windows."""
        text = without_escapes(text)
        _, begin = self._window(text, 0)
        while begin < len(text):
            matches, begin = self._window(text, begin)
            yield from self._numbers(text, matches)

    def _window(self, text: str, begin: int) -> tuple[list[re.Match[str]], int]:
        """The matches that begin in a window, and where the next window begins."""
        end = begin + WINDOW
        found = []
        for match in self._compiled.finditer(text, begin, end + _OVERLAP):
            if match.start() >= end or end + _OVERLAP <= match.end() < len(text):
                break
            found.append(match)
        return found, max(end, found[-1].end() if found else 0)

    def _numbers(self, text: str, matches: list[re.Match[str]]) -> Iterator[MatchedNumber]:
        for match in matches:
            value = _in_text(match[self._group])
            if value is not None:
                self._learn(text, match)
                value = self._whole(text, match, value)
                yield MatchedNumber(value, _in_text(match.groupdict().get("step")))
            elif self.no_number is None:
                self.no_number = str(match[self._group])

    def _whole(self, text: str, match: re.Match[str], value: float) -> float:
        """The value with its exponent, if the regex ends before that."""
        end, read = match.end(self._group), match[self._group].strip()
        if not _DECIMAL.fullmatch(read):
            return value
        if exponent := _EXPONENT.match(text, end):
            return float(read + exponent[0])
        if end == match.end() and self.cut is None and (more := _MORE.match(text, end)):
            self.cut = read, read + more[0]
        return value

    def _learn(self, text: str, match: re.Match[str]) -> None:
        """Remember the text before the number, from the first match."""
        if self._strange is None:
            before = _LITERAL.search(text[: match.start(self._group)])
            literal = before[0] if before else ""
            if any(char.isalpha() for char in literal):
                self._strange = re.compile(re.escape(literal) + _STRANGE, re.IGNORECASE)

    def _misses(self, text: str) -> str | None:
        if self._strange is None or not _MAY_BE_STRANGE.search(text):
            return None
        found = self._strange.search(text)
        return found[1] if found else None


def number(raw: object) -> float | None:
    """A number, or one written as text; nan and inf count, since a diverged loss is news."""
    if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
        return None
    try:
        return float(raw)
    except (ValueError, OverflowError):
        return None


def _in_text(raw: str | None) -> float | None:
    """A number in a log, which may have separators of thousands."""
    return number(raw.replace(",", "") if raw and _THOUSANDS.fullmatch(raw) else raw)


def _value_group(pattern: re.Pattern[str]) -> int:
    """The group named `value`, otherwise the first that is not the step."""
    names = pattern.groupindex
    others = [group for group in range(1, pattern.groups + 1) if group != names.get("step")]
    return names.get("value") or next(iter(others), 1)
