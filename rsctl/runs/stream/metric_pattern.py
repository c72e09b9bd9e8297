"""The regex of one metric: the numbers that it finds, and the numbers that it misses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional

from rsctl.runs.stream.cpu_limit import CpuLimit

_LITERAL = re.compile(r"\D{1,24}\Z")
_STRANGE = r"\s*([-+]?(?:nan|inf(?:inity)?)(?![\w.]))"
_MAY_BE_STRANGE = re.compile("nan|inf", re.IGNORECASE)


class MatchedNumber(NamedTuple):
    """A number in a line, with its step if the line has one."""

    value: float
    step: Optional[float]


class Pattern:
    """A metric's regex, and its remaining CPU time.

    `no_number` is the first matched text that is not a number. `missed` is the first NaN or
    infinity in the place of the number that the regex does not match: a group such as `([0-9.]+)`
    cannot match it.
    """

    def __init__(self, name: str, regex: str) -> None:
        self.name = name
        self.no_number: str | None = None
        self.missed: str | None = None
        self.limit = CpuLimit()
        self._compiled = re.compile(regex)
        self._group = _value_group(self._compiled)
        self._strange: re.Pattern[str] | None = None

    def is_in(self, texts: Sequence[str]) -> bool:
        """Whether any of these texts has a match, or a missed number."""
        return any(self._compiled.search(text) or self._misses(text) for text in texts)

    def read(self, text: str) -> Iterator[MatchedNumber]:
        """The numbers in a line."""
        has_match = False
        for match in self._compiled.finditer(text):
            has_match = True
            value = number(match[self._group])
            if value is not None:
                self._learn(text, match)
                yield MatchedNumber(value, number(match.groupdict().get("step")))
            elif self.no_number is None:
                self.no_number = str(match[self._group])
        if not has_match and self.missed is None:
            self.missed = self._misses(text)

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


def _value_group(pattern: re.Pattern[str]) -> int:
    """The group named `value`, otherwise the first that is not the step."""
    names = pattern.groupindex
    others = [group for group in range(1, pattern.groups + 1) if group != names.get("step")]
    return names.get("value") or next(iter(others), 1)
