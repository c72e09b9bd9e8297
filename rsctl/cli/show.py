"""Findings and talk on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import click
import msgspec

from rsctl.cli.options import in_color, is_quiet
from rsctl.findings import Finding
from rsctl.stream.clean import clean

_COLORS = {"error": "red", "warning": "yellow", "note": "cyan"}


def say(line: str = "") -> None:
    """A line of talk on stderr, unless --quiet."""
    if not is_quiet():
        click.echo(clean(line), err=True)


def styled(text: str, **style: object) -> str:
    """Text with a style, if stderr is coloured."""
    return click.style(text, **style) if in_color() else text  # type: ignore[arg-type]


def show_findings(findings: Iterable[Finding], text: str | None = None) -> None:
    """Print findings with their place and the line they point at.

    `text` is the content of the file that they are about; without it the file is read again.
    """
    sources: dict[str, list[str]] = {}
    for finding in findings:
        if is_quiet_finding(finding):
            continue
        click.echo(clean(format_finding(finding)), err=True)
        if finding.file and finding.line and finding.column:
            if finding.file not in sources:
                sources[finding.file] = _lines(finding.file, text)
            _show_line(sources[finding.file], finding)
        if finding.remedy:
            click.echo(clean(f"    {styled('->', bold=True)} {finding.remedy}"), err=True)


def is_quiet_finding(finding: Finding) -> bool:
    """Whether --quiet leaves this finding out."""
    context = click.get_current_context(silent=True)
    return not finding.is_error and context is not None and is_quiet()


def format_finding(finding: Finding) -> str:
    """`job.yaml:3:10: error: workers.count: message`."""
    place = ""
    if finding.file:
        place = finding.file + (f":{finding.line}:{finding.column}" if finding.line else "") + ": "
    label = styled(finding.severity, fg=_COLORS[finding.severity], bold=True)
    key = f"{finding.path}: " if finding.path else ""
    return f"{place}{label}: {key}{finding.message}"


def print_json(value: object) -> None:
    """One JSON document on stdout."""
    data = msgspec.json.format(msgspec.json.encode(value), indent=2)
    sys.stdout.write(data.decode() + "\n")


def _lines(file: str, text: str | None) -> list[str]:
    if text is None:
        if file.startswith("--set ") or file == "-":
            return []
        try:
            text = Path(file).read_text(errors="replace")
        except OSError:
            return []
    return text.splitlines()


def _show_line(lines: list[str], finding: Finding) -> None:
    if finding.line is None or finding.column is None or finding.line > len(lines):
        return
    line = lines[finding.line - 1]
    start = max(0, finding.column - 60)  # a very long line is shown around the place
    shown = clean(line[start : start + 100].replace("\t", " "))
    caret = " " * (finding.column - 1 - start) + styled("^", fg="green", bold=True)
    click.echo(f"    {shown}\n    {caret}", err=True)
