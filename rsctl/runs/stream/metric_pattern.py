"""The regex of one metric: the numbers that it finds, and the numbers that it misses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional

from rsctl.runs.stream.cpu_limit import CpuLimit
from rsctl.runs.stream.metric_units import Units
from rsctl.runs.stream.sanitize import without_escapes

_LITERAL = re.compile(r"\D{1,24}\Z")
_STRANGE = (
    r"\s*([-+]?(?:nan|inf(?:inity)?)(?![\w.])"
    r"|(?=-|[0-9.]+e[-+][0-9])-?(\.?[0-9][0-9.]*)(?:e[-+]?[0-9]+)?)"
)
_MAY_BE_STRANGE = re.compile(r"nan|inf|-\.?[0-9]|e\+", re.IGNORECASE)
_DECIMAL = re.compile(r"[-+]?[0-9.]+")
_EXPONENT = re.compile(r"[eE](?:[-+][0-9]+(?![0-9_]|\.[0-9])|[0-9]+(?!\w|\.[0-9]))")
_MORE = re.compile(
    r"\.[0-9]+|(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?"
    r"|([_'\u2019\u00a0\u202f])[0-9]{3}(?:\1[0-9]{3})*(?!\w)(?:\.[0-9]+)?"
    r"|(?<=[=: ]0),[0-9]+(?![\w,])"  # a decimal comma
    r"|(?::[0-5][0-9]){1,2}(?:\.[0-9]+)?(?![\w:])"  # a duration
)
_MORE_OF_STEP = re.compile(r"([,_'\u2019\u00a0\u202f])[0-9]{3}(?:\1[0-9]{3})*(?![\w,]|\.[0-9])")
_BEFORE = re.compile(r"[0-9][0-9.]*\Z")
_GROUPS_BEFORE = re.compile(r"(?<![\w.,])[1-9][0-9]{0,2}([,_'\u2019\u00a0\u202f])(?:[0-9]{3}\1)*\Z")
_LAST_GROUP = re.compile(r"[0-9]{3}(?![0-9])")
_IN_NUMBERS = frozenset("0123456789.-,_'\u2019\u00a0\u202f")
_SIGN = re.compile(r"(?:\A|[^\w)\]-])-\Z")
_UNIT = re.compile(r"( ?)([A-Za-z\u00b5\u03bc%][A-Za-z\u00b5\u03bc%/]*)(?![\w=:])")
_SCALE = re.compile(
    r"[num\u00b5\u03bckKMGTP]?(?:i?[bB](?:its?|ps)?|s|secs?|it|FLOPS?)?(?:/[a-z]+)?|mins?|h|%"
)
PHASE = "(?i:train(?:ing)?|val(?:id(?:ation)?)?|eval(?:uation)?|test|dev) "
"""A phase of a training before a name, as in `val loss`: a regex."""
_NAME = re.compile(rf"(?:\A|[^\w./-])((?:{PHASE})?[\w./-]*[A-Za-z_][\w./-]*)[^\w./-]{{1,4}}\Z")
_BAR = re.compile(r"/(([0-9]+(?:\.[0-9]+)?)([kMGTP]?)) \[[^\[\]]*\Z")
"""The length of one of tqdm's bars, before a number behind it."""
_PARTS = re.compile("[_./ -]|(?<=[a-z0-9])(?=[A-Z])")
_THOUSANDS = re.compile(
    r"\s*[-+]?[1-9][0-9]{0,2}([,'\u2019\u00a0\u202f])[0-9]{3}(?:\1[0-9]{3})*(?:\.[0-9]+)?\s*"
)
_SEPARATORS = re.compile("[,'\u2019\u00a0\u202f]")
_DIGITS = re.compile(r"\d+")
_LONGEST_NAME = 60
_LONGEST_BAR = 200
_MOST_BARS = 8
_LONGEST_UNIT = 16
_FRACTION = re.compile(r"\.[0-9]+(?![\w.])")
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
    first number of which the regex reads a part, such as 1 or 234.5 of 1,234.5, and the whole one.
    `no_number` is the first matched text that is not a number. `missed` is the first NaN or
    infinity in the place of the number that the regex does not match, and `unread` the first number
    that it would match without a sign or exponent, as `([0-9.]+) s` with -2 s. `units` are two
    values with different units, such as 985it/s and 1.02kit/s, `names` the names of two values that
    end alike, such as loss and eval_loss, `bars` the lengths of two progress bars whose values take
    turns: they are far apart, since the length of one bar may change with the epoch or the rank.
    Values in 1.25s/it or 1.02kit/s are converted where the metric's unit, or the one that the regex
    has behind the number, is it/s. `unmatched_unit` is the first of these in another place.
    `against` is the first number whose unit contradicts the metric's goal, such as 1.25s/it of a
    maximum: it is not read. `fraction` is the first step that is not a whole number.
    """

    def __init__(
        self, name: str, regex: str, goal: str | None = None, unit: str | None = None
    ) -> None:
        self.name = name
        self.no_number: str | None = None
        self.missed: str | None = None
        self.unread: str | None = None
        self.cut: tuple[str, str] | None = None
        self.units: tuple[str, str] | None = None
        self.names: tuple[str, str] | None = None
        self.bars: tuple[str, str] | None = None
        self.unmatched_unit: str | None = None
        self.against: str | None = None
        self.fraction: str | None = None
        self.limit = CpuLimit()
        self.rest_limit = CpuLimit()
        self.reads_rest = True
        self._compiled = re.compile(regex)
        self._group = _value_group(self._compiled)
        self._strange: re.Pattern[str] | None = None
        self._takes_sign = "-(" in regex
        self.goal = goal
        self._units = Units(regex, goal, unit)
        self._unit: tuple[str, str, bool] | None = None
        self._name: str | None = None
        self._before = ""
        self._bars: list[tuple[float, str]] = []
        self._after: str | None = None

    def is_in(self, texts: Sequence[str]) -> bool:
        """Whether any of these texts has a match in its first window, or a missed number."""
        return any(
            self._compiled.search(text) or self._misses(text) or any(self._in_other_units(text))
            for text in texts
        )

    def read(self, text: str) -> Iterator[MatchedNumber]:
        """The numbers in the first window of a line."""
        plain = without_escapes(text)
        matches, _ = self._window(plain, 0)
        if not matches and plain != text:  # a regex may be written for what the script prints
            plain = text
            matches, _ = self._window(plain, 0)
        yield from self._numbers(plain, matches)
        if not matches and (found := self._misses(plain[:WINDOW])):
            if found[-1].isalpha():
                self.missed = self.missed or found
            else:
                self.unread = self.unread or found
        elif not matches:
            yield from self._converted(plain[:WINDOW])

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
            if value is None:
                self.no_number = self.no_number or match[self._group]
            else:
                self._learn(text, match)
                whole = self._whole(text, match, value)
                if whole is not None:
                    yield MatchedNumber(whole, self._step(text, match))

    def _whole(self, text: str, match: re.Match[str], value: float) -> float | None:
        """The value with its exponent, if the regex ends before that, and in the metric's unit;
        None if its unit contradicts the metric's goal.
        """
        (start, end), read = match.span(self._group), match[self._group].strip()
        is_decimal = _DECIMAL.fullmatch(read)
        if is_decimal:
            if exponent := _EXPONENT.match(text, end):
                value, end = float(read + exponent[0]), exponent.end()
            elif end == match.end() and (more := _MORE.match(text, end)):
                self.cut = self.cut or (read, read + more[0])
            self._look_before(text, match.start(), start, read)
            self._compare_name(text, start)
            self._compare_bar(text, start)
        converted = self._units.convert(value, text, end)
        against = self._units.against
        if converted is None and against and (unit := against.match(text, end)):
            self.against = self.against or read + unit[0]
            return None
        if is_decimal:
            self._compare_unit(text, text[start:end].strip(), end, converted is not None)
        return value if converted is None else converted

    def _step(self, text: str, match: re.Match[str]) -> float | None:
        """The step with its exponent; None if the line has none."""
        read = match.groupdict().get("step")
        if read is None:
            return None
        start, end = match.span("step")
        self._look_before(text, match.start(), start, read)
        whole, value_at = read, match.start(self._group)
        if _DECIMAL.fullmatch(read):
            more, fraction = _MORE_OF_STEP.match(text, end), _FRACTION.match(text, end)
            if exponent := _EXPONENT.match(text, end):
                read = whole = read + exponent[0]
            elif more and not end <= value_at < more.end():
                self.cut = self.cut or (read, read + more[0])
            elif fraction and not end <= value_at < fraction.end():
                whole = read + fraction[0]
        if self.fraction is None and (_in_text(whole) or 0.0) % 1 > 0:
            self.fraction = whole
        return _in_text(read)

    def _look_before(self, text: str, begin: int, start: int, read: str) -> None:
        """Remember a number that the regex begins in the middle of, as after a greedy `.*`.

        `begin` is where its match begins: thousands before a number are text that it leaves out.
        """
        if self.cut is not None or text[start - 1 : start] not in _IN_NUMBERS:
            return
        whole = text[max(0, start - _LONGEST_NAME) : start]
        if not self._takes_sign and _SIGN.search(whole[-2:]):
            self.cut = read, f"-{read}"
        elif read[:1].isdigit():
            is_group = begin == start and _LAST_GROUP.match(read)
            if before := _BEFORE.search(whole) or (is_group and _GROUPS_BEFORE.search(whole)):
                self.cut = read, before[0] + read

    def _compare_unit(self, text: str, read: str, end: int, is_converted: bool) -> None:
        """Remember the first unit, and a value that has another one."""
        after = text[end : end + _LONGEST_UNIT]
        if self.units is not None or after == self._after:
            return
        self._after = after
        space, unit = found.groups() if (found := _UNIT.match(text, end)) else ("", "")
        if space and not _SCALE.fullmatch(unit):
            space = unit = ""
        alike = unit[:-1] if len(unit) > 2 and unit.endswith("s") else unit  # 1step, 2steps
        self._unit = self._unit or (alike, read + space + unit, is_converted)
        first, shown, was_converted = self._unit
        if alike != first and not (is_converted and was_converted):
            self.units = shown, read + space + unit

    def _compare_name(self, text: str, start: int) -> None:
        """Remember the first name before a number, and another one that ends alike."""
        if self.names is not None or (self._before and text.endswith(self._before, 0, start)):
            return
        found = _NAME.search(text[max(0, start - _LONGEST_NAME) : start])
        if found is None:
            return
        if self._name is None:
            self._name = found[1]
            # A name at the beginning or behind a space may be a part of another one.
            self._before = "" if found[0].startswith((" ", found[1])) else found[0]
        one, other = (_DIGITS.sub("", name) for name in (self._name, found[1]))  # rank0/loss
        if one != other and _PARTS.split(one)[-1] == _PARTS.split(other)[-1]:
            self.names = self._name, found[1]

    def _compare_bar(self, text: str, start: int) -> None:
        """Remember two bars with the number, once the first of them comes again."""
        if self.bars or not (found := _BAR.search(text, max(0, start - _LONGEST_BAR), start)):
            return
        length = float(found[2]) * 1000 ** " kMGTP".index(found[3] or " ")
        for known, shown in reversed(self._bars):
            if known <= 1.5 * length and length <= 1.5 * known:
                last = self._bars[-1][1]
                self.bars = (shown, last) if shown != last else None
                return
        if len(self._bars) < _MOST_BARS:
            self._bars.append((length, found[1]))

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
        if found is None or not found[2]:
            return found and found[1]
        before, after = text[: found.start(1)], text[found.end(1) :]
        plain = (f"{before}{each}{after}" for each in (found[2], "1.0"))  # "1e-05" has no point
        return found[1] if any(map(self._compiled.search, plain)) else None

    def _in_other_units(self, text: str) -> Iterator[re.Match[str]]:
        """Numbers with another unit than that of the regex: tqdm prints the inverse of slow steps
        and thousands of fast ones, Keras us, ms or s.
        """
        if self._units.other is not None and "/" in text:
            yield from self._units.other.finditer(text)

    def _converted(self, text: str) -> Iterator[MatchedNumber]:
        for match in self._in_other_units(text):
            read, (start, end) = match[self._group], match.span(self._group)
            value = _in_text(read)
            if value is None:
                continue
            self._look_before(text, match.start(), start, read)
            if (converted := self._units.convert(value, text, end)) is not None:
                yield MatchedNumber(converted, self._step(text, match))
            elif self.unmatched_unit is None:
                unit = _UNIT.match(text, end)
                self.unmatched_unit = f"{read}{unit[0] if unit else ''}"


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
    return number(_SEPARATORS.sub("", raw) if raw and _THOUSANDS.fullmatch(raw) else raw)


def _value_group(pattern: re.Pattern[str]) -> int:
    """The group named `value`, otherwise the first that is not the step."""
    names = pattern.groupindex
    others = [group for group in range(1, pattern.groups + 1) if group != names.get("step")]
    return names.get("value") or next(iter(others), 1)
