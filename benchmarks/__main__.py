"""`python -m benchmarks [NAME...] [--runs N | --quick] [-o text|json]`: asserts nothing."""

from __future__ import annotations

import argparse
import atexit
import os
import platform
import sys
import tempfile
from contextlib import ExitStack
from datetime import datetime, timezone
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec

from benchmarks.measure import Failed
from benchmarks.quick import QUICK, run_program, torch
from benchmarks.report import Report
from tests.kit.fork_server import started

_NAMES = ("startup", "submit", "stream", "intake", "clouds")
_MORE = (
    "image",
    "quota",
    "advise",
    "armed",
    "checks",
    "hangs",
    "preemptions",
    "slurm",
)  # by name only: they need more than a Python, or minutes


def main() -> int:
    """Run the benchmarks that were asked for; 1 if a measured command failed."""
    options = _parse()
    reports = []
    if options.output == "text":
        print(f"{_machine()}\n")
    for name in options.names or (QUICK if options.quick else _NAMES):
        if options.quick and (obstacle := QUICK[name].obstacle()):
            print(f"{name}: skipped, because {obstacle}", file=sys.stderr)
            continue
        try:
            report = _run_quick(name) if options.quick else _run(name, options.runs)
        except Failed as problem:
            print(f"{name}: {problem}", file=sys.stderr)
            return 1
        reports.append(report)
        if options.output == "text":
            print(report.text(), flush=True)
    if options.output == "json":
        result = {"machine": _machine(), "benchmarks": reports}
        print(msgspec.json.format(msgspec.json.encode(result)).decode())
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure rsctl.")
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"default: {', '.join(_NAMES)}")
    parser.add_argument("--runs", metavar="N", type=int, help="default: what each likes best")
    parser.add_argument(
        "--quick", action="store_true", help="each once and shortest, to see that it still runs"
    )
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    options = parser.parse_args()
    known = tuple(QUICK) if options.quick else _NAMES + _MORE
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}; there are {', '.join(known)}")
    if options.runs is not None and options.runs < 1:
        parser.error("--runs must be at least 1")
    return options


def _run(name: str, runs: int | None, **settings: Any) -> Report:
    """One benchmark, with an RSCTL_HOME and an environment of its own."""
    benchmark = import_module(f"benchmarks.{name}")
    environment = dict(os.environ)
    try:
        with tempfile.TemporaryDirectory(prefix="rsctl-bench-") as home:
            os.environ["RSCTL_HOME"] = home
            report: Report = benchmark.run(runs or benchmark.RUNS, **settings)
    finally:
        os.environ.clear()
        os.environ.update(environment)
    return report


def _run_quick(name: str) -> Report:
    quick = QUICK[name]
    with patch.dict(os.environ, _forks() if torch in quick.needs else {}):
        if quick.program:
            return run_program(name, quick.program)
        return _run(name, 1, **quick.settings)


@cache
def _forks() -> dict[str, str]:
    """Variables by which training scripts are copies of one process that has imported torch."""
    stack = ExitStack()
    atexit.register(stack.close)
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    return stack.enter_context(started(Path(folder), FORKED_MODULES="sklearn.datasets"))


def _machine() -> str:
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    when = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    python = f"Python {platform.python_version()}"
    return f"{when}, {os.cpu_count()} cores, {python}, load {load} at the start"


if __name__ == "__main__":
    sys.exit(main())
