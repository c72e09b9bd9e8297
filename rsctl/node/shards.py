"""Shards: files whose names differ by numbers, written as one text, and their shares.

`train-{000..127}.tar` stands for 128 names, as in a shell; several ranges stand for all their
combinations. Numbers have the width of the longer bound if one of them begins with a zero.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence

MOST = 100_000
"""The most names that one text may stand for."""

_RANGE = re.compile(r"\{([0-9]{1,12})\.\.([0-9]{1,12})\}")
_BEGUN = re.compile(r"\{[^{}]*\.\.")


def has_range(text: str) -> bool:
    """Whether a text has a brace range, well formed or not."""
    return _BEGUN.search(text) is not None


def count(text: str) -> int:
    """How many names a text stands for. Raises ValueError with what is wrong with its ranges."""
    if _BEGUN.search(_RANGE.sub("", text)) or re.search(r"[{}]", _RANGE.sub("", text)):
        raise ValueError("a range has the form {000..127}, two numbers in braces")
    for low, high in _RANGE.findall(text):
        if int(low) > int(high):
            raise ValueError(f"the range {{{low}..{high}}} is empty: its end is below its start")
    names = math.prod(int(high) - int(low) + 1 for low, high in _RANGE.findall(text))
    if names > MOST:
        raise ValueError(f"it expands to {names:,} names, and the maximum is {MOST:,}")
    return names


def expand(text: str) -> list[str]:
    """All names that a text stands for, in order. Raises ValueError, as `count`."""
    count(text)
    literals = _RANGE.split(text)[::3]
    numbers = [_numbers(low, high) for low, high in _RANGE.findall(text)]
    return [
        "".join(itertools.chain.from_iterable(zip(literals, (*chosen, ""), strict=True)))
        for chosen in itertools.product(*numbers)
    ]


def split_folder(text: str) -> tuple[str, str]:
    """The folder above the first range, without a slash at its end, and the rest of the text."""
    begun = _BEGUN.search(text)
    end = text.rfind("/", 0, begun.start() if begun else len(text))
    return text[: max(end, 0)], text[end + 1 :]


def share(names: Sequence[str], index: int, of: int) -> list[str]:
    """The part of one of so many nodes or ranks: sizes differ by one at most."""
    return list(names[index::of])


def _numbers(low: str, high: str) -> list[str]:
    is_padded = any(text.startswith("0") and len(text) > 1 for text in (low, high))
    width = max(len(low), len(high)) if is_padded else 0
    return [f"{number:0{width}}" for number in range(int(low), int(high) + 1)]
