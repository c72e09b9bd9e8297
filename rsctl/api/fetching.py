"""Downloads the results of a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rsctl.api.results import result_locations
from rsctl.clients.endpoints import Endpoints
from rsctl.clients.retries import RetryPolicy
from rsctl.findings import Finding, RsctlError
from rsctl.runs.fetch.locations import ResultLocation, locations_of, region_of
from rsctl.runs.fetch.sources import DownloadSource
from rsctl.runs.home import is_rehearsed
from rsctl.runs.records import RunRecord
from rsctl.target_info import import_object
from rsctl.targets import get
from rsctl.targets.managed.endpoints import endpoints_of

if TYPE_CHECKING:  # `has_checkpoints`, at the end of each submission, does without
    from rsctl.runs.fetch.fetch import Fetched, FetchProgress, FetchSelection


def fetch_results(
    run: RunRecord,
    path: str | os.PathLike[str] | None,
    choice: FetchSelection,
    show: Callable[[FetchProgress], object] = bool,
) -> Fetched:
    """Download the results of a run so far into a folder, by default one of its name.

    Files that already exist are not fetched again, and an interrupted download continues. Errors of
    single files are among the findings; raises RsctlError if the download cannot continue.
    """
    from rsctl.runs.fetch.fetch import fetch

    endpoints = endpoints_of(run.run)
    outdated = _collect_log(run) if "logs" in choice.kinds else []
    locations = _locations(run, result_locations(run), endpoints)
    folder = Path(path) if path is not None else Path(run.run)
    retries = RetryPolicy.of(endpoints)
    fetched = fetch(run.run, locations, folder, choice, retries, show)
    fetched.findings[:0] = outdated
    return fetched


def has_checkpoints(run: RunRecord) -> bool | None:
    """Whether there is a file among a run's checkpoints; None if that cannot be read."""
    results = {n: at for n, at in result_locations(run).items() if n == "checkpoints"}
    try:
        for found in _locations(run, results, endpoints_of(run.run)):
            if found.kind == "checkpoints" and next(iter(found.source.files()), None) is not None:
                return True
            if found.kind == "checkpoints" and found.source.findings:
                return None
    except RsctlError:
        return None
    return False


def _locations(
    run: RunRecord, results: Mapping[str, str], endpoints: Endpoints
) -> list[ResultLocation]:
    region = region_of(run.plan)
    return locations_of(run.run, results, endpoints, region, _source_of(run, endpoints))


def _source_of(run: RunRecord, endpoints: Endpoints) -> Callable[[str], DownloadSource] | None:
    """How the run's target reads the paths of its jobs; None if they are on this machine."""
    reference = get(run.target).info.result_source
    if reference is None or is_rehearsed(run.run):
        return None
    open_source = import_object(reference)
    return lambda location: open_source(run.run, run.plan, location, endpoints)


def _collect_log(run: RunRecord) -> list[Finding]:
    """Collect the whole log; returns why it is incomplete, if it is."""
    target = get(run.target)
    try:
        target.collect(run.run)
    except RsctlError as problem:
        return [replace(finding, severity="warning") for finding in problem.findings]
    finally:
        target.release(run.run)
    return []
