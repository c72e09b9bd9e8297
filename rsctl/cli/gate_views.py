"""A gate's verdict: a table on a terminal, JSON, and the files that CI systems read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
import typer

from rsctl.bench.checks import Check
from rsctl.bench.formats import junit
from rsctl.bench.formats.text import (
    format_amount,
    format_effect,
    format_mean,
    format_p,
    headline,
    worst_first,
)
from rsctl.bench.gate import Gate
from rsctl.bench.results import Results
from rsctl.bench.verdict import Verdict
from rsctl.cli.show import print_important, print_json, print_message
from rsctl.cli.table import write_table
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.stream.sanitize import sanitize_line

REPORTS = {
    "junit": "JUnit XML",
    "markdown": "Markdown",
    "metrics": "GitLab's metrics report (OpenMetrics)",
    "github-benchmark": "github-action-benchmark: FILE.smaller.json and FILE.bigger.json",
    "bencher": "Bencher Metric Format",
}
FIGURES_ALONE = [kind for kind in REPORTS if kind != "markdown"]
"""Those that need no verdict."""


class Report(msgspec.Struct, frozen=True):
    """A file to write: one of REPORTS, and where."""

    kind: str
    path: str


def parse_report(text: str) -> Report:
    """`junit=gate.xml` and the like. Raises typer.BadParameter."""
    kind, _, path = text.partition("=")
    if kind not in REPORTS or not path:
        known = ", ".join(f"{kind}=FILE" for kind in REPORTS)
        raise typer.BadParameter(f"{text!r} is none of {known}")
    return Report(kind, path)


def print_gate(gate: Gate, output: str) -> None:
    """The outcome on standard output."""
    if output == "json":
        print_json(gate)
        return
    for difference in gate.differences:
        print_message(f"differs: {difference}")
    if gate.checks:
        rows = [["VERDICT", "METRIC", "BASELINE", "NOW", "EFFECT [90 %]", "ALLOWED", "P"]]
        write_table([*rows, *map(_row, worst_first(gate))])
    for check in worst_first(gate):
        if check.reason:
            print_message(sanitize_line(f"{check.title}: {check.reason}"))
    for difference in gate.refused:
        print_important(f"the baseline is of another measurement: {difference}")
    typer.echo(headline(gate))


def _row(check: Check) -> list[str]:
    return [
        check.verdict.value,
        check.title,
        format_mean(check, check.baseline),
        format_mean(check, check.value),
        format_effect(check),
        format_amount(check, check.floor, signed=False),
        format_p(check),
    ]


def announce(
    reports: Sequence[Report], name: str, cells: Sequence[str], checks: Sequence[str]
) -> None:
    """Before anything runs: every cell and check is in the JUnit file, as an error."""
    for report in reports:
        if report.kind == "junit":
            _write(report.path, junit.before(name, cells, checks).encode())


def write_reports(
    reports: Sequence[Report],
    name: str,
    gate: Gate | None,
    candidate: Results,
    is_tolerant: bool,
) -> None:
    """The files that were asked for; without a gate those that only have figures."""
    metrics = [series.name for series in candidate.series if not series.name.startswith("run.")]
    for report in reports:
        if report.kind == "junit":
            text = junit.after(name, candidate.cells, gate, is_tolerant)
            _write(report.path, text.encode())
        elif report.kind == "markdown" and gate is not None:
            from rsctl.bench.formats.markdown import gate_markdown

            _write(report.path, gate_markdown(gate).encode())
        elif report.kind == "metrics":
            from rsctl.bench.formats.openmetrics import openmetrics

            _write(report.path, openmetrics(candidate, metrics).encode())
        elif report.kind == "bencher":
            from rsctl.bench.formats.trackers import bencher

            _write(report.path, bencher(candidate, metrics))
        elif report.kind == "github-benchmark":
            _write_github_benchmark(report.path, candidate, metrics)


def annotate_github(gate: Gate, file: str | None) -> None:
    """Annotations and the step's summary, where GitHub Actions runs this."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    from rsctl.bench.formats.github import MOST_SUMMARY_BYTES, annotation_lines, step_summary

    for line in annotation_lines(gate, file):
        typer.echo(line, err=True)
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        used = os.path.getsize(summary) if os.path.exists(summary) else 0
        text = step_summary(gate, MOST_SUMMARY_BYTES - used - 1)
        with open(summary, "a", encoding="utf-8") as out:
            out.write(text + "\n")


def exit_code(gate: Gate, is_tolerant: bool) -> int:
    """What the gate ends with; a baseline of something else is never tolerated."""
    can_tell = gate.verdict in (Verdict.PASS, Verdict.REGRESSED)
    if is_tolerant and not can_tell and not gate.refused:
        return int(ExitCode.SUCCEEDED)
    return gate.exit_code


def _write_github_benchmark(path: str, candidate: Results, metrics: Sequence[str]) -> None:
    from rsctl.bench.formats.trackers import github_benchmark

    for goal, word in (("min", "smaller"), ("max", "bigger")):
        data = github_benchmark(candidate, goal, metrics)
        stem = path.removesuffix(".json")
        if data is not None:
            _write(f"{stem}.{word}.json", data)


def _write(path: str, data: bytes) -> None:
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(data)
    except OSError as problem:
        finding = error("report", f"cannot write {path}: {problem.strerror}")
        raise RsctlError(ExitCode.ENVIRONMENT, finding) from None
