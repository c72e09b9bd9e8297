"""GitHub Actions: annotations by workflow commands, and the step summary.

A step shows 10 annotations of each kind and a job 50 (zizmor#634), so that the worst come first
and the last one gives the number of those left out. A step summary over 1 MiB is refused whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from rsctl.bench.checks import MetricCheck
from rsctl.bench.formats.text import format_check
from rsctl.bench.gate import Gate
from rsctl.bench.verdict import Verdict
from rsctl.runs.stream.sanitize import escape_control

MOST_ANNOTATIONS = 10
MOST_SUMMARY_BYTES = 1024 * 1024

_COMMANDS = {Verdict.REGRESSED: "error", Verdict.NO_DATA: "error", Verdict.INCONCLUSIVE: "warning"}


def annotation_lines(gate: Gate, file: str | None = None) -> list[str]:
    """Workflow commands, one a line, for all that did not pass: 10 at most, the worst first."""
    bad = [check for check in gate.worst_first if check.verdict is not Verdict.PASS]
    if gate.is_too_good:
        lines = [_command("error", "rsctl gate", gate.outdated_headline, file)]
        return [*lines, *_of_checks(bad, MOST_ANNOTATIONS - 1, file)]
    if not bad and gate.verdict is not Verdict.PASS:
        return [_command("error", "rsctl gate", gate.headline, file)]
    return _of_checks(bad, MOST_ANNOTATIONS, file)


def _of_checks(bad: Sequence[MetricCheck], most: int, file: str | None) -> list[str]:
    shown = bad if len(bad) <= most else bad[: most - 1]
    lines = [_of_check(check, file) for check in shown]
    left = len(bad) - len(shown)
    if left:
        more = f"{left} more checks did not pass; the summary of the step lists all of them"
        lines.append(_command("warning", "rsctl gate", more, file))
    return lines


def _of_check(check: MetricCheck, file: str | None) -> str:
    title = f"{check.title}: {check.verdict.value}"
    return _command(_COMMANDS[check.verdict], title, format_check(check), file)


def _command(kind: str, title: str, message: str, file: str | None) -> str:
    location = f"file={_property(file)}," if file else ""
    return f"::{kind} {location}title={_property(title)}::{_data(message)}"


def _data(value: str) -> str:
    """As @actions/core's escapeData, `toolkit/packages/core/src/command.ts`, with visible line
    ends.
    """
    return escape_control(value.replace("%", "%25"))


def _property(value: str) -> str:
    """As @actions/core's escapeProperty."""
    return _data(value).replace(":", "%3A").replace(",", "%2C")
