"""Files of benches and gates that CI systems read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing, suppress
from stat import S_ISREG

import msgspec

from rsctl.atomic_file import write_file
from rsctl.bench.formats import junit
from rsctl.bench.gate import Gate, together
from rsctl.bench.paired_results import own_results
from rsctl.bench.records import Benches, Cell
from rsctl.bench.results import Results
from rsctl.runs.store import Store

CI_REPORTS = {
    "junit": "JUnit XML",
    "markdown": "Markdown for a comment on the change",
    "html": "the report of the bench, with the verdict and charts",
    "metrics": "GitLab's metrics report (OpenMetrics)",
    "github-benchmark": "github-action-benchmark: FILE.smaller.json and FILE.bigger.json",
    "bencher": "Bencher Metric Format",
}
"""A description of each kind."""

UNGATED_REPORTS = tuple(kind for kind in CI_REPORTS if kind != "markdown")
"""The kinds that need no verdict."""


class CiReport(msgspec.Struct, frozen=True):
    """A file to write: one of CI_REPORTS, and its path."""

    kind: str
    path: str


def announce_reports(
    reports: Sequence[CiReport],
    name: str,
    cells: Sequence[Cell],
    checks: Sequence[str] = (),
    reason: str = junit.NOT_YET,
) -> None:
    """Before anything runs: every cell and check is in the JUnit file, as an error with a reason.

    A process that is killed in between leaves failures, not gaps, and no values of an earlier one.
    Raises RsctlError.
    """
    for report in reports:
        if report.kind == "junit":
            names = [junit.runs_name(cell) for cell in cells]
            write_file(report.path, junit.before(name, names, checks, reason).encode())
        else:
            _remove(report)


def write_unfinished(reports: Sequence[CiReport], bench: str) -> None:
    """Write the HTML of a bench that was interrupted: its runs so far. Raises RsctlError."""
    for report in reports:
        if report.kind == "html":
            write_file(report.path, _html(bench, None).encode())


def write_reports(
    reports: Sequence[CiReport],
    name: str,
    candidate: Results,
    gate: Gate | None = None,
    *,
    allow_inconclusive: bool = False,
) -> None:
    """Write the reports. Without a gate, the Markdown report states that there is no verdict.

    `name` is the name of the job.

    With `allow_inconclusive` a check without a verdict has passed in JUnit. Raises RsctlError.
    """
    metrics = [series.name for series in candidate.series if not series.name.startswith("run.")]
    runs = candidate.cells
    if fresh := _confirmation(gate):
        runs = [cell.followed_by(fresh.of_cell(cell.cell)) for cell in runs]
        candidate = together(candidate, fresh)
    for report in reports:
        if report.kind == "junit":
            text = junit.after(name, runs, gate, allow_inconclusive)
            write_file(report.path, text.encode())
        elif report.kind == "markdown":
            from rsctl.bench.formats.markdown import gate_comment, ungated_comment

            if gate is None:
                text = ungated_comment(candidate, metrics, name)
            else:
                text = gate_comment(gate, name)
            write_file(report.path, text.encode())
        elif report.kind == "html":
            write_file(report.path, _html(candidate.label, gate).encode())
        elif report.kind == "metrics":
            from rsctl.bench.formats.openmetrics import openmetrics

            write_file(report.path, openmetrics(candidate, metrics).encode())
        elif report.kind == "bencher":
            from rsctl.bench.formats.trackers import bencher

            write_file(report.path, bencher(candidate, metrics))
        elif report.kind == "github-benchmark":
            _write_github_benchmark(report.path, candidate, metrics)


def _confirmation(gate: Gate | None) -> Results | None:
    """The samples of the fresh runs that confirmed a gate; None if there are none."""
    if gate is None or gate.confirmation is None:
        return None
    with closing(Store()) as store:
        bench = Benches(store).get(gate.confirmation)
        return own_results(store, bench) if bench else None


def _html(candidate: str, gate: Gate | None) -> str:
    from rsctl.results.report.build import make_report

    with closing(Store()) as store:
        bench = Benches(store).get(candidate)
        return make_report(store, [bench] if bench else [], {}, gate=gate).html


def github_annotations(gate: Gate, file: str | None = None) -> list[str]:
    """Workflow commands of GitHub Actions, one a line, for all that did not pass."""
    from rsctl.bench.formats.github import annotation_lines

    return annotation_lines(gate, file)


def append_github_summary(gate: Gate, path: str) -> None:
    """Append the gate as Markdown to the summary of a step of GitHub Actions. Raises OSError."""
    from rsctl.bench.formats.github import MOST_SUMMARY_BYTES
    from rsctl.bench.formats.markdown import gate_within

    used = os.path.getsize(path) if os.path.exists(path) else 0
    text = gate_within(gate, MOST_SUMMARY_BYTES - used - 1)
    with open(path, "a", encoding="utf-8") as out:
        out.write(text + "\n")


def _write_github_benchmark(path: str, candidate: Results, metrics: Sequence[str]) -> None:
    from rsctl.bench.formats.trackers import github_benchmark

    for goal, file in _github_paths(path).items():
        data = github_benchmark(candidate, goal, metrics)
        if data is not None:
            write_file(file, data)


def _github_paths(path: str) -> dict[str, str]:
    """The files of github-action-benchmark by goal."""
    stem = path.removesuffix(".json")
    return {"min": f"{stem}.smaller.json", "max": f"{stem}.bigger.json"}


def _remove(report: CiReport) -> None:
    """Remove the files of an earlier call, which a CI system would take for this one's."""
    of_github = [*_github_paths(report.path).values()]
    for path in of_github if report.kind == "github-benchmark" else [report.path]:
        with suppress(OSError):  # writing it will fail, and say why
            if S_ISREG(os.lstat(path).st_mode):
                os.unlink(path)
