"""The units behind a metric's numbers, such as 985it/s and 1.02kit/s, and their conversion."""

from __future__ import annotations

import re
from decimal import Decimal

_RATE = re.compile(r"(?<!\\)((?: \??|\\s[*+?]?)?)([A-Za-z]+|(?<=\)))/(s|sec)(?![A-Za-z])")
_PREFIX = "[kKMGTP]"
_PREFIXED = re.compile(f"{_PREFIX}(?=i?[bB]|it)")
_PER = "s(?:ec)?"
_SECONDS = "(?:[num\u00b5\u03bc]?s)"
_EACH = re.compile(rf"(?<![\\A-Za-z]){_SECONDS}/( ?)([A-Za-z]+)")
_INVERSE = {  # but ns/day of a simulation is a rate
    "max": rf"{_SECONDS}/ ?(?!(?:s|sec|min|h|hour|day)\b)[A-Za-z]+",
    "min": f"{_PREFIX}?it/s(?:ec)?",
}
_SECOND = "[num\u00b5\u03bc]?"  # 1.2m samples/s may be a million
_SCALED = re.compile(
    rf"({_PREFIX}?)(i?[bB](?:its?|ps)?|it|FLOPS?)|({_SECOND})(s|sec)|({_PREFIX}) ([A-Za-z]+)"
)
_POWERS = {"n": -3, "u": -2, "\u00b5": -2, "\u03bc": -2, "m": -1, "": 0, "k": 1, "K": 1}
_POWERS |= {"M": 2, "G": 3, "T": 4, "P": 5}  # of a thousand, or of 1024 in KiB
_OWN_UNIT = re.compile(r"\)(?: \??|\\s[*+?]?)?([A-Za-z\u00b5\u03bc]*/ ?[A-Za-z]+)")


class Units:
    """The units in which a metric may be printed, by its regex, its goal and its own unit.

    `against` matches a unit that contradicts the goal, and `other` is the regex with other units
    in the place of its own; each is None if there is none.
    """

    def __init__(self, regex: str, goal: str | None, unit: str | None) -> None:
        inverse = _INVERSE.get(goal or "")
        self.against = re.compile(rf" ?(?:{inverse})(?!\w)") if inverse else None
        self.other = _with_other_unit(regex)
        own = {*_OWN_UNIT.findall(regex)}
        # The regex may read the unit it/s and the metric be in kit/s, or in samples/s by mistake.
        units = [unit or "", *(own if len(own) == 1 else ())]
        self._units = [
            _Unit(each)
            for each in units
            if _is_convertible(each) and not (self.against and self.against.fullmatch(each))
        ]

    def convert(self, value: float, text: str, end: int) -> float | None:
        """A value that ends there, in the first unit of the quantity that stands behind it; None
        if another quantity or no unit follows.
        """
        values = (unit.convert(value, text, end) for unit in self._units)
        return next((each for each in values if each is not None), None)


class _Unit:
    """A unit such as it/s, ms or GB/s, and the others of its quantity."""

    def __init__(self, unit: str) -> None:
        over, _, per = unit.partition("/")
        scaled = _SCALED.fullmatch(over)
        prefix, base = [g for g in scaled.groups() if g is not None] if scaled else ["", over]
        self._power = _POWERS[prefix]
        self._thousand = Decimal(1024 if base[:2] in ("iB", "ib") else 1000)
        (base, scale), (per, per_scale) = (
            (_PER, _SECOND) if word in ("s", "sec") else (re.escape(word), f"{_PREFIX}?")
            for word in (base, per.lstrip())
        )
        same = rf"(?P<same>{scale}) ?{base}" + (f"/ ?{per}" if per else "(?:/[A-Za-z]+)?")
        inverse = rf"|(?P<of>{per_scale}) ?{per}/ ?(?P<each>{scale}){base}" if base and per else ""
        self._pattern = re.compile(rf" ?(?:{same}{inverse})(?!\w|=|/[A-Za-z])")

    def convert(self, value: float, text: str, end: int) -> float | None:
        """A value that ends there, in this unit; None if another quantity or no unit follows."""
        found = self._pattern.match(text, end)
        if found is None:
            return None
        prefixes, exact = found.groupdict(), Decimal(str(value))
        if prefixes["same"] is not None:
            power = _POWERS[prefixes["same"]]
        elif value:
            exact = 1 / exact
            power = _POWERS[prefixes["each"]] - _POWERS[prefixes["of"]]
        else:
            return None
        return float(exact * self._thousand ** (power - self._power))


def _is_convertible(unit: str) -> bool:
    """Whether a unit has scales, as in ms or k samples/s; % has none."""
    return "/" in unit or _SCALED.fullmatch(unit) is not None


def _with_other_unit(regex: str) -> re.Pattern[str] | None:
    """A regex with the units that may be in the place of its own; None if it has no such unit.

    s/it and kit/s for it/s, s/ samples for samples/s (the unit " samples" of tqdm), GB/s for MB/s,
    and us/step or s/step for ms/step.
    """
    try:
        if _RATE.search(regex):
            return re.compile(_RATE.sub(_other_rates, regex))
        if _EACH.search(regex):
            other = rf"(?:{_SECONDS}/\1\2|[ ]?{_PREFIX}?[ ]?\2/{_PER})"
            return re.compile(_EACH.sub(other, regex))
    except re.error:  # a range of characters
        pass
    return None


def _other_rates(rate: re.Match[str]) -> str:
    space, unit, _ = rate.groups()
    bare = _PREFIXED.sub("", unit, count=1)
    inverse = rf"\s*{_SECOND}{_PER}/\s?{_PREFIX}?{bare}|" if unit else ""
    return f"(?:{inverse}{_PREFIX}?{space}{_PREFIX}?{bare}/{_PER})(?![A-Za-z])"
