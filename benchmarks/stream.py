"""How fast `rsctl logs` merges the logs of many replicas, and in how much memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from benchmarks.made_run import MIXED, SHORT, check, make_run
from benchmarks.measure import Usage, measure, rsctl
from benchmarks.report import Report

RUNS = 3
LINES = 1_000_000
_LONGER = 4  # times as many, to see whether memory grows
_REPLICAS = 64
_OUTPUTS = ("text", "json")


def run(runs: int, lines: int = LINES) -> Report:
    """Text and JSON in turn: a log, a log of short lines, and once a longer log."""
    report = Report("stream", f"rsctl logs, {_REPLICAS} replicas, median of {runs} runs")
    _add(report, "mixed", MIXED, lines, runs)
    _add(report, "short", SHORT, lines, runs)
    _add(report, "mixed", MIXED, lines * _LONGER, 1)
    report.notes.append(
        "every line came, those of a replica in order, in JSON all in order of time"
    )
    return report


def _add(report: Report, about: str, kinds: Sequence[str], lines: int, runs: int) -> None:
    name = f"{about}-{lines}"
    make_run(name, _REPLICAS, lines, kinds)
    used: dict[str, list[Usage]] = {output: [] for output in _OUTPUTS}
    for _ in range(runs):
        for output in _OUTPUTS:
            used[output].append(_show(name, output, lines))
    for output, all_usage in used.items():
        what = f"{output}, {lines:,} {about} lines"
        report.add(what, "lines/s", [lines / usage.wall for usage in all_usage], "> 150,000")
        report.add(what, "wall s", [usage.wall for usage in all_usage])
        report.add(what, "CPU s", [usage.cpu for usage in all_usage])
        report.add(what, "peak MB", [usage.peak / 1e6 for usage in all_usage], "100")


def _show(name: str, output: str, lines: int) -> Usage:
    """Into a file, since a reader that checks would be slower than what is measured."""
    shown = Path(os.environ["RSCTL_HOME"]) / "shown"
    usage = measure(rsctl("logs", name, "-o", output), shown)
    check(shown, output == "json", lines)
    shown.unlink()
    return usage
