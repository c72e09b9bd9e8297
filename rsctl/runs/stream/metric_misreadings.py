"""Findings on a metric's regex: the numbers that it misses, cuts, or takes for others."""

from __future__ import annotations

from collections.abc import Iterator

from rsctl.findings import Finding, warning
from rsctl.runs.stream.metric_pattern import Pattern
from rsctl.runs.stream.structured import EXAMPLE

_NUMBER_GROUP = r"([-+]?(?:[0-9.]+(?:[eE][-+]?[0-9]+)?|nan|inf))"
_GROUPED = r"([0-9]+(?:%s[0-9]{3})*(?:\.[0-9]+)?)"
_LONGEST = 60


def pattern_findings(pattern: Pattern) -> Iterator[Finding]:
    """The findings on a metric's regex by the values read so far, the same ones each time."""
    if pattern.no_number is not None:
        why = f"{pattern.no_number[:_LONGEST]!r} is not a number, and is ignored"
        remedy = f"let the group match only the number: {_NUMBER_GROUP}"
        yield _value(pattern, f": {why}", remedy)
    if pattern.missed is not None:
        message = f"{_place(pattern, pattern.missed)}: the training may have diverged"
        remedy = f"let the group match it too: {_NUMBER_GROUP}"
        yield warning("metric-nan", message, remedy, f"metrics.{pattern.name}.regex")
    if pattern.unread is not None:
        message = f"{_place(pattern, pattern.unread)}: the value is ignored"
        remedy = f"let the group match it too: {_NUMBER_GROUP}"
        yield warning("metric-value", message, remedy, f"metrics.{pattern.name}.regex")
    if pattern.cut is not None:
        read, whole = pattern.cut
        is_begin = whole.startswith(read)
        separator = whole[len(read) if is_begin else -len(read) - 1]
        if whole.startswith(f"{read}:"):
            remedy = f"print a duration as a number of seconds: {EXAMPLE}"
        elif is_begin or separator not in "0123456789.-":
            group = _GROUPED % ("," if separator == "." else separator)
            remedy = f"let its group match the whole number, such as {group}"
        elif whole.startswith("-"):
            remedy = f"let its group, and not the text before it, match the sign: {_NUMBER_GROUP}"
        else:
            remedy = "let the text before its group end before the number: write .*? for .*"
        yield _value(
            pattern, f": its regex reads {read} where the log has {whole[:_LONGEST]}", remedy
        )
    if pattern.fraction is not None:
        shown, counted = pattern.fraction[:_LONGEST], int(float(pattern.fraction))
        why = f": its step {shown} is not a whole number, and counts as {counted}"
        remedy = "let the group `step` match a whole number, or remove it"
        yield _value(pattern, why, remedy)
    if pattern.units is not None:
        one, other = (text[:_LONGEST] for text in pattern.units)
        why = f" has values in different units, which are read as plain numbers: {one}, {other}"
        yield _value(pattern, why, f"print one unit, or print a line without units: {EXAMPLE}")
    if pattern.unmatched_unit is not None:
        message = f"{_place(pattern, pattern.unmatched_unit[:_LONGEST])}: the value is ignored"
        remedy = f"print one unit: {EXAMPLE}; or write the name of its bar before the number"
        yield warning("metric-value", message, remedy, f"metrics.{pattern.name}.regex")
    if pattern.against is not None:
        goal = f"goal: {pattern.goal}"
        why = f": {pattern.against[:_LONGEST]} is ignored, because its unit contradicts {goal}"
        yield _value(pattern, why, f"print one unit: {EXAMPLE}; or correct the metric's {goal}")
    if pattern.names is not None:
        one, other = (text[:_LONGEST] for text in pattern.names)
        why = f": its regex reads the values of {one} and of {other}"
        remedy = r"to read one of them, write (?<![\w./-]) before its name, or the whole name"
        yield _value(pattern, why, remedy)
    if pattern.bars is not None:
        one, other = pattern.bars
        why = f": its regex reads the values of progress bars of {one} and of {other} steps"
        remedy = f"to read one of them, write its name and .*?, or /{one} .*?, before the number"
        yield _value(pattern, why, remedy)


def _place(pattern: Pattern, text: str) -> str:
    return (
        f"the log has {text} where metric {pattern.name} has its number, and its regex does not "
        "match it"
    )


def _value(pattern: Pattern, why: str, remedy: str) -> Finding:
    message = f"metric {pattern.name}{why}"
    return warning("metric-value", message, remedy, f"metrics.{pattern.name}.regex")
