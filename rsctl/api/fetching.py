"""Downloads what a run has left."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from rsctl.api.results import result_locations
from rsctl.clients.retries import RetryPolicy
from rsctl.findings import Finding, RsctlError
from rsctl.runs.fetch.fetch import Fetched, FetchProgress, FetchSelection, fetch
from rsctl.runs.fetch.locations import locations_of, region_of
from rsctl.runs.records import RunRecord
from rsctl.targets import get
from rsctl.targets.managed.endpoints import endpoints_of


def fetch_results(
    run: RunRecord,
    path: str | os.PathLike[str] | None = None,
    choice: FetchSelection = FetchSelection(),  # noqa: B008 - it cannot change
    show: Callable[[FetchProgress], object] = bool,
) -> Fetched:
    """Bring what a run has left by now into a folder, by default one of its name.

    What is there already is not fetched again, and what broke off goes on. Errors of single files
    are among the findings; raises RsctlError where nothing can go on.
    """
    endpoints = endpoints_of(run.run)
    outdated = _collect_log(run) if "logs" in choice.kinds else []
    results, region = result_locations(run), region_of(run.plan)
    locations = locations_of(run.run, results, endpoints, region)
    folder = Path(path) if path is not None else Path(run.run)
    retries = RetryPolicy.of(endpoints)
    fetched = fetch(run.run, locations, folder, choice, retries, show)
    fetched.findings[:0] = outdated
    return fetched


def _collect_log(run: RunRecord) -> list[Finding]:
    """Have all of the log here; why not all of it could be had."""
    target = get(run.target)
    try:
        target.collect(run.run)
    except RsctlError as problem:
        return [replace(finding, severity="warning") for finding in problem.findings]
    finally:
        target.release(run.run)
    return []
