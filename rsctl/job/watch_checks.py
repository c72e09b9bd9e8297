"""Checks of the rules of `watch`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rsctl.findings import Finding, error, warning
from rsctl.job.job import Job

_PART = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<capturing>\((?:\?P<(?P<name>\w+)>|(?!\?)))|(?P<bracket>[()])",
    re.DOTALL,
)
_NUMBER = "([-+]?(?:[0-9.]+(?:[eE][-+]?[0-9]+)?|nan|inf))"


def check_watch(job: Job) -> Iterator[Finding]:
    """The findings on rules of `watch`."""
    for name, rule in job.watch.items():
        given = rule.conditions
        if len(given) != 1:
            found = "none" if not given else " and ".join(given)
            message = f"a rule needs exactly one of when, below and above, and this has {found}"
            yield error("watch", message, "write `when: nan`, or a bound", f"watch.{name}")
            continue
        metric = job.metrics.get(rule.metric)
        if rule.when is not None and metric is not None and not _reads_nan(metric.regex or ""):
            message = f"the regex of metric {rule.metric} matches no nan, so that no value is one"
            remedy = f"let its group match nan, too: {_NUMBER}"
            yield warning("watch", message, remedy, f"watch.{name}.when")


def _reads_nan(regex: str) -> bool:
    """Whether the group that has a metric's number matches nan; true if that is not known."""
    flags = re.compile(regex).flags
    groups = [] if flags & re.VERBOSE else _groups(regex)
    own = [text for name, text in groups if name == "value"]
    own += [text for name, text in groups if name != "step"]
    try:
        return not own or any(re.compile(own[0], flags).fullmatch(text) for text in ("nan", "NaN"))
    except re.error:  # it refers to another group
        return True


def _groups(regex: str) -> list[tuple[str, str]]:
    """The names and texts of a regex's capturing groups, in their order."""
    opened: list[tuple[int, str, int] | None] = []
    found: list[tuple[int, str, str]] = []
    for part in _PART.finditer(regex):
        if part["capturing"]:
            opened.append((part.start(), part["name"] or "", part.end()))
        elif part["bracket"] == "(":
            opened.append(None)
        elif part["bracket"] and (group := opened.pop()):
            found.append((group[0], group[1], regex[group[2] : part.start()]))
    return [(name, text) for _, name, text in sorted(found)]
