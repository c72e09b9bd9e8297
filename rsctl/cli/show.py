"""Output of commands: findings and messages on standard error, JSON on standard output."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import typer

from rsctl.cli.output import in_color, is_quiet
from rsctl.findings import SECRET, Finding
from rsctl.job.file_text import lines_of
from rsctl.job.secret_names import ends_in_private_key, line_shows_secret, without_known_secrets
from rsctl.runs.stream.sanitize import sanitize

if TYPE_CHECKING:
    from rsctl.api import JobFile
    from rsctl.runs.stream.events import Event

_KEY = re.compile(r"([\w-]+):(?=\s|$)")
_COLORS = {"error": "red", "warning": "yellow", "note": "cyan"}


def print_message(line: str = "") -> None:
    """Print a message on stderr, unless --quiet."""
    if not is_quiet():
        print_important(line)


def print_important(line: str) -> None:
    """Print a message on stderr, even with --quiet; ignores a closed stream."""
    with suppress(OSError):  # a pipe whose reader has gone, or a terminal that was closed
        typer.echo(sanitize(line), err=True)


def styled(text: str, **style: object) -> str:
    """Text with a style, if stderr is colored."""
    return typer.style(text, **style) if in_color() else text  # type: ignore[arg-type]


def show_findings(findings: Iterable[Finding], file: JobFile | None = None) -> None:
    """Print findings with their position and source line; only errors if --quiet.

    `file` is a file whose text has been read; other files are read again. Never shows a line with a
    secret.
    """
    findings = list(findings)
    secret = {(each.file, each.line) for each in findings if each.code == SECRET}
    sources = {file.path: lines_of(file.text)} if file else {}
    for finding in findings:
        if is_quiet() and not finding.is_error:
            continue
        print_important(format_finding(finding))
        is_shown = finding.line and finding.column and (finding.file, finding.line) not in secret
        if finding.file and is_shown:
            if finding.file not in sources:
                sources[finding.file] = _lines(finding.file)
            _show_line(sources[finding.file], finding)
        if finding.remedy:
            print_important(remedy_line(finding.remedy))


def remedy_line(remedy: str) -> str:
    """Print the remedy below the finding."""
    return _indented(f"    {styled('->', bold=True)} {remedy}")


def format_finding(finding: Finding) -> str:
    """`job.yaml:3:10: error: workers.count: message`."""
    label = styled(finding.severity, fg=_COLORS[finding.severity], bold=True)
    key = f"{finding.path}: " if finding.path else ""
    message = without_known_secrets(finding.message)
    return _indented(f"{finding.position}{label}: {key}{message}")


def _indented(text: str) -> str:
    """A text whose further lines, such as those of a file's name, do not look like rsctl's own."""
    return re.sub(r"\n(?=\S)", "\n    ", text)


def print_json(value: object, *, is_line: bool = False) -> None:
    """Print one JSON document on stdout, as one line where several documents follow each other.

    See `json_of` for numbers that JSON does not support.
    """
    from rsctl.runs.stream.ndjson import json_of

    data = json_of(value) if is_line else msgspec.json.format(json_of(value), indent=2)
    try:
        sys.stdout.buffer.write(data + b"\n")
    except BrokenPipeError:  # the exit code holds although the reader has gone
        if is_line:
            raise


def print_events(events: Iterable[Event]) -> None:
    """Print one event per line on stdout, unbuffered, so that readers are never behind."""
    from rsctl.runs.stream.ndjson import event_lines

    sys.stdout.buffer.write(event_lines(events))
    sys.stdout.buffer.flush()


def _lines(file: str) -> list[str]:
    if file.startswith("--set ") or file == "-":
        return []
    try:
        return lines_of(Path(file).read_text("utf-8", errors="replace"))
    except OSError:
        return []


def _show_line(lines: list[str], finding: Finding) -> None:
    """The line with a caret below the position; empty if the file has another key there."""
    number, column = finding.line or 0, finding.column or 0
    if number > len(lines) or not lines[number - 1].strip() or line_shows_secret(lines[number - 1]):
        return
    if ends_in_private_key("\n".join(lines[:number])):
        return
    key = _KEY.match(lines[number - 1], column - 1)
    if key and finding.path and key[1] not in re.split(r"[.\[]", finding.path):
        return  # the key is missing: the caret points at the first existing key
    line = lines[number - 1]  # of a very long one, the part around the position
    start = max(0, min(column - 60, len(line) - 100))
    shown = line[start : start + 100].replace("\t", " ")
    caret = " " * text_width(shown[: column - 1 - start]) + styled("^", fg="green", bold=True)
    print_important(f"    {sanitize(shown)}\n    {caret}")


def text_width(text: str) -> int:
    """The width of a text in terminal columns."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 1 + (east_asian_width(c) in "WF") for c in text)
