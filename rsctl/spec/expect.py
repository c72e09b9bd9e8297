"""A type in the words of an error message."""

from __future__ import annotations

from typing import Any

from rsctl.spec.types import Shape

_PATTERNS = {
    r"^[a-z][a-z0-9-]{0,39}$": "at most 40 of a-z, 0-9 and '-', beginning with a letter",
    r"^\S+$": "text without spaces",
    r"^gs://.+": "a gs:// location",
    r"^s3://.+": "an s3:// location",
    r"^/.*": "a path that begins with '/'",
    r"^[^/\s]+$": "a name without '/' and spaces",
    r"^[^\r\n]+$": "a text of one line",
    r"^[A-Za-z0-9][A-Za-z0-9._/:@-]*$": "an image such as pytorch/pytorch:TAG",
    r"^[a-z0-9][a-z0-9.+:=~_-]*$": "a Debian package such as libaio1",
    r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$": "a Python module such as pkg.train",
    r"^[A-Za-z_][A-Za-z0-9_]*$": "a name of letters, digits and '_', not beginning with a digit",
    r"^[A-Za-z_][A-Za-z0-9_./-]*$": "a name of letters, digits and . _ / -, letter first",
    r"^[^\s=-][^\s=]*$": "an option without its dashes, such as epochs",
}


def expected(shape: Shape) -> str:
    """ "a whole number from 1 to 10000", "one of torchrun, once, none", "a list of text"."""
    if shape.kind == "union":
        return _one_of_several(shape)
    if shape.kind == "literal":
        words = [str(word) for word in shape.arguments]
        return words[0] if len(words) == 1 else "one of " + ", ".join(words)
    if shape.kind is list:
        return _list(shape.arguments[0])
    if shape.kind is dict or shape.is_struct:
        return "a mapping"
    if shape.kind is Any:
        return "anything"
    if shape.kind in (int, float):
        return ("a whole number" if shape.kind is int else "a number") + _range(shape)
    if shape.kind is bool:
        return "true or false"
    if shape.kind is str:
        return pattern_in_words(shape) or "text"
    return f"{shape.kind.expected}{_range(shape)}"


def pattern_in_words(shape: Shape) -> str | None:
    """What a text must look like, if its type says so."""
    pattern = shape.limit("pattern")
    return _PATTERNS.get(pattern, f"text that matches {pattern}") if pattern else None


def _one_of_several(shape: Shape) -> str:
    kinds = {choice.kind for choice in shape.choices}
    choices = [
        c for c in shape.choices if c.kind is not None and not (c.kind is int and float in kinds)
    ]
    words = list(dict.fromkeys(expected(choice) for choice in choices))
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " or " + words[-1]


def _list(item: Shape) -> str:
    if item.kind is Any:
        return "a list"
    return "a list of " + ("numbers or text" if item.kind == "union" else "text")


def _range(shape: Shape) -> str:
    low, high, above = shape.limit("ge"), shape.limit("le"), shape.limit("gt")
    if low is not None and high is not None:
        return f" from {low} to {high}"
    if above is not None:
        return f", above {above}" + (f" and at most {high}" if high is not None else "")
    return f" of at least {low}" if low is not None else ""
