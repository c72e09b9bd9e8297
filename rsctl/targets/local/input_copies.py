"""Copies of inputs to this machine's disk, which the supervisor makes before the replicas start.

All nodes of the local targets are this machine, so each input is copied once for all nodes and all
restarts, with the code that also downloads results. The copy is removed when the run ends.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.node.structured_lines import line
from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.runs.home import run_directory
from rsctl.runs.stream.events import MetricEvent, now

if TYPE_CHECKING:
    from rsctl.clients.endpoints import Endpoints
    from rsctl.runs.recorder import Recorder

_REPLICA = "worker-0"  # whose metrics they are


def copied_to(run: str) -> Path:
    """Where a run's copies are: a folder for each input."""
    return run_directory(run) / "inputs"


def copy_inputs(
    description: RunDescription, recorder: Recorder, check: Callable[[], object]
) -> None:
    """Make all copies; `check` is called meanwhile, and can end this by an exception.

    Raises RsctlError.
    """
    if not description.copies:
        return
    from rsctl.clients.endpoints import Endpoints  # not for jobs without copies

    endpoints = Endpoints.of_environment()
    before = os.umask(0o022)  # containers may have any user; the run's folder stays private
    try:
        for name, location in description.copies.items():
            _copy(name, location, endpoints, description.run, recorder, check)
    finally:
        os.umask(before)


def remove_copies(run: str) -> None:
    """Remove the copies."""
    if (copies := copied_to(run)).exists():
        import shutil  # not for jobs without copies

        shutil.rmtree(copies, ignore_errors=True)


def _copy(
    name: str,
    location: str,
    endpoints: Endpoints,
    run: str,
    recorder: Recorder,
    check: Callable[[], object],
) -> None:
    from rsctl.clients.retries import RetryPolicy
    from rsctl.runs.fetch.directory import FolderFull
    from rsctl.runs.fetch.fetch import FetchSelection, fetch
    from rsctl.runs.fetch.inputs import input_location

    began = monotonic()
    try:
        where = input_location(name, location, endpoints)
        choice = FetchSelection(kinds=frozenset({"inputs"}))
        fetched = fetch(
            run, [where], copied_to(run), choice, RetryPolicy.of(endpoints), lambda _: check()
        )
    except FolderFull as problem:
        remedy = (
            f"free disk space, set RSCTL_HOME to a larger disk, or set inputs.{name}.mode: mount"
        )
        finding = error("disk", f"cannot copy {name}: {problem.summary}", remedy, f"inputs.{name}")
        raise RsctlError(ExitCode.ENVIRONMENT, finding) from None
    (copied_to(run) / where.folder).mkdir(parents=True, exist_ok=True)  # also of an empty folder
    if any(finding.is_error for finding in fetched.findings):
        raise RsctlError(fetched.exit_code or ExitCode.ENVIRONMENT, *fetched.findings)
    for finding in fetched.findings:
        recorder.finding(finding)
    metrics = {
        "files": len(fetched.files),
        "bytes": sum(file.size for file in fetched.files),
        "seconds": round(monotonic() - began, 3),
    }
    _report({f"input.{name}.{key}": value for key, value in metrics.items()}, run, recorder)


def _report(metrics: dict[str, float], run: str, recorder: Recorder) -> None:
    """As metrics, and in the log of the first worker, as rsctl-launch reports its copies."""
    from rsctl.runs.stream.journal import JournalWriter

    journal = JournalWriter(RunFolder(run).log(_REPLICA))
    journal.feed("stdout", line("metrics", metrics))
    journal.close()
    time = now()
    recorder.metrics(
        MetricEvent(time=time, replica=_REPLICA, name=name, value=float(value))
        for name, value in metrics.items()
    )
