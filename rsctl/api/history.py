"""Histories: what a job's benches measured over commits, and the steps in it."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import Optional

import msgspec

from rsctl.api.arguments import check_path, checked_names
from rsctl.api.bench_handle import Bench
from rsctl.api.bench_list import bench as find_bench
from rsctl.api.gate_against import reopen_own
from rsctl.bench.commits import KnownCommit, clean_commit, resolve_commit
from rsctl.bench.git_files import working_file
from rsctl.bench.history import make_record
from rsctl.bench.history_files import append_record, read_history
from rsctl.bench.history_series import HistorySeries, make_series, select
from rsctl.bench.results import Results
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.job.gate_checks import HISTORY_FORMS, is_history
from rsctl.job.git_location import GIT


class HistoryView(msgspec.Struct, kw_only=True):
    """The series of a history, and of how many commits it is."""

    history: str
    commits: int
    series: list[HistorySeries]


class Recorded(msgspec.Struct, kw_only=True):
    """Where a record was written, of which commit and bench, and how many cells it has."""

    history: str
    commit: str
    bench: str
    cells: int


def read_series(
    location: str | PathLike[str],
    *,
    metrics: Iterable[str] = (),
    cells: Iterable[str] = (),
    job: str | None = None,
    folder: str = ".",
) -> HistoryView:
    """The series of a history, with their steps: by default of the jobs' own metrics.

    `location` is a file, gs://, s3:// or git:REF:PATH; paths are relative to `folder`. `cells` are
    texts such as `workers.count=4`, of which a cell has all. Raises RsctlError.
    """
    place = check_path("location", location)
    names, chosen = checked_names("metrics", metrics), checked_names("cells", cells)
    history = read_history(place, folder)
    if job is not None:
        history.records = [record for record in history.records if record.job == job]
    series = select(make_series(history), history, names, chosen)
    commits = len({record.commit for record in history.records})
    return HistoryView(history=place, commits=commits, series=series)


def commit_to_record(folder: str, location: str, ref: Optional[str] = None) -> KnownCommit:
    """The commit that a job of `folder` is measured at: `ref`, or by default what is checked out.

    Raises RsctlError if files differ from what is checked out.
    """
    if ref is not None:
        return resolve_commit(folder, ref)
    if location.startswith(GIT):
        return clean_commit(folder, str(working_file(location, ".")))
    return clean_commit(folder, None if "://" in location else location)


def record_results(
    results: Results, job: str, commit: KnownCommit, location: str, folder: str = "."
) -> Recorded:
    """Append what was measured at a commit to a history, which is created if necessary.

    Of git:REF:PATH it writes PATH in the working tree. A record that exists is not written again.
    Raises RsctlError.
    """
    record = make_record(results, job, commit.commit, commit.seconds)
    written = append_record(record, location, folder)
    return Recorded(
        history=written, commit=commit.commit, bench=results.label, cells=len(record.cells)
    )


def add_bench(
    location: str | PathLike[str], source: Bench | str, commit: Optional[str] = None
) -> Recorded:
    """Append a bench of the store to a history.

    Without `commit` it is of what is checked out, and the job's files must not have changed since
    the bench started. Raises RsctlError.
    """
    place = check_path("location", location)
    bench = source if isinstance(source, Bench) else find_bench(source)
    if commit is None:
        reopen_own(bench.record)
    found = commit_to_record(bench.record.folder or ".", place, commit)
    return record_results(bench.results(), bench.record.name, found, place)


def require_history(location: str | None, option: str) -> str | None:
    """The location, unless it is empty or names no file of a history. Raises RsctlError."""
    if location is None or is_history(location):
        return location
    message = f"{option} {location!r} is not the location of a history"
    raise RsctlError(ExitCode.USAGE, error("history", message, HISTORY_FORMS))
