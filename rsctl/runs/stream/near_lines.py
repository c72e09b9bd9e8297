"""Finds the line of a log that a metric without a value may have been meant for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rsctl.runs.stream.metric_pattern import PHASE
from rsctl.runs.stream.sanitize import sanitize_line

_NUMBER = r"(?P<number>[-+]?[0-9](?:[0-9.,]*[0-9])?(?:[eE][-+]?[0-9]+)?)"
_LABELLED = re.compile(
    rf"(?:\b{PHASE})?(?P<quote>[\"']?)\b(?P<label>[A-Za-z][\w/@.-]{{0,60}})(?P=quote)"
    rf"(?: {PHASE[:-1]}\b)?(?: \([^()]{{1,20}}\))?[ \t=:>]{{1,8}}[\"']?{_NUMBER}(?!\w|[.,][0-9])"
)
_WITH_UNIT = re.compile(rf"(?<![\w.,]){_NUMBER}[ \t]?(?P<label>[A-Za-z][\w/]{{0,60}})")
_THOUSANDS = re.compile(r"[-+]?[0-9]{1,3}(?:,[0-9]{3})+")
_SYNTAX = re.compile(r"\\.|\[[^\]]*\]|\(\?[P<:=!]*\w*>?")
_SPECIAL = re.compile(r"[\\.^$*+?{}\[\]|()]")
_WORD = re.compile(r"[A-Za-z]{2,}[0-9]*")
_BETWEEN_PARTS = re.compile(r"[^A-Za-z0-9]+")
_COUNTERS = {"step", "epoch", "iter", "iteration", "value", "rank", "worker"}
_SIMILAR = 0.9
_LONGEST = 120  # characters of a line that are shown
_MOST = 1000  # different labels that are compared


class NearLine(NamedTuple):
    """A line, or its part around a number, and a regex that reads the number."""

    text: str
    regex: str


def near_line(name: str, regex: str, lines: Iterable[str]) -> NearLine | None:
    """The first line with a number beside a word of a metric's regex or name, or a similar word."""
    seen: dict[str, NearLine] = {}
    for line in lines:
        for label, near in _numbers(sanitize_line(line).strip()):
            if len(seen) < _MOST:
                seen.setdefault(label.lower(), near)
    literal = [word.lower() for word in _WORD.findall(_SYNTAX.sub(" ", regex))]
    words = [word for word in (*literal, name.lower()) if word not in _COUNTERS]
    for word in words:
        if word in seen:
            return seen[word]
    for label, near in seen.items():
        if not set(words).isdisjoint(_BETWEEN_PARTS.split(label)):
            return near
    from difflib import get_close_matches  # only for a metric without a value

    close = [label for word in words for label in get_close_matches(word, seen, 1, _SIMILAR)]
    return seen[close[0]] if close else None


def _numbers(line: str) -> Iterator[tuple[str, NearLine]]:
    """The numbers of a line with their labels or units."""
    for pattern in (_LABELLED, _WITH_UNIT):
        for match in pattern.finditer(line[:4096]):
            begin, end = match.span("number")
            before, after = line[match.start() : begin], line[end : match.end()]
            group = "[0-9.,]" if _THOUSANDS.match(match["number"]) else "[0-9.]"
            sign = "-?" if match["number"].startswith("-") else ""
            regex = f"{_escaped(before)}({sign}{group}+){_escaped(after)}"
            first = max(0, end - _LONGEST // 2) if len(line) > _LONGEST else 0
            yield match["label"], NearLine(line[first : first + _LONGEST].strip(), regex)


def _escaped(text: str) -> str:
    """The text as a regex, which a person will read."""
    return _SPECIAL.sub(r"\\\g<0>", text)
