"""Build events as text."""

from __future__ import annotations

from rsctl.api import BuildStep
from rsctl.cli.show import format_finding, remedy_line
from rsctl.findings import Finding
from rsctl.runs.stream.formatting import format_duration

_NOTABLE_SECONDS = 1.0


def is_notable(step: BuildStep) -> bool:
    """Whether a finished step, or an event outside the Dockerfile, gets a line of its own."""
    return step.failed or (step.seconds or 0.0) >= _NOTABLE_SECONDS


def format_seconds(seconds: float) -> str:
    """A duration such as `1.2 s`, or `1:30` from one minute up."""
    return f"{seconds:.1f} s" if seconds < 60 else format_duration(seconds)


def format_build_finding(finding: Finding) -> str:
    """A finding with its remedy on the next line."""
    remedy = f"\n{remedy_line(finding.remedy)}" if finding.remedy else ""
    return format_finding(finding) + remedy
