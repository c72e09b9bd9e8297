"""Resumes a run: a new job gets its checkpoints."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from itertools import takewhile
from typing import Any

from msgspec.structs import replace

from rsctl.api.job_file import JobFile, load, setting_texts
from rsctl.api.results import planned_locations
from rsctl.api.run_list import run as find_run
from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.job.job import Job
from rsctl.job.units import Location
from rsctl.runs.home import is_rehearsed
from rsctl.runs.records import RunRecord
from rsctl.runs.store import Store
from rsctl.target_info import TargetInfo, target_info

_KEY = "checkpoints"


def resumed(
    job: Job | JobFile, reference: str, target: TargetInfo, is_rehearsal: bool
) -> Job | JobFile:
    """The job with the checkpoints of an earlier run, which it reads and continues.

    Raises RsctlError if the run has none, has not ended, or if the job's target cannot see them.
    """
    if isinstance(job, JobFile) and any(text.split("=")[0] == _KEY for text in job.settings):
        raise _refused("the job gets its checkpoints twice", f"give --resume or --set {_KEY}=")
    location = _checkpoints_of(find_run(reference).record, target, is_rehearsal)
    if isinstance(job, Job):
        return replace(job, checkpoints=Location(location))
    more = setting_texts({_KEY: location})
    return load(job.path, set=(*job.settings, *more), text=job.text, strict=False)


def require_free_checkpoints(new: RunRecord, is_rehearsal: bool) -> None:
    """Raise RsctlError if an unfinished run writes to the checkpoints of a new run.

    Of two runs that were recorded at the same time, the first one has them.
    """
    place = _place(new, is_rehearsal)
    with closing(Store()) as store:
        others = list(takewhile(lambda run: run.run != new.run, store.unfinished()))
    for run in others:
        if place is None or _place(run, is_rehearsed(run.run)) != place:
            continue
        latest = find_run(run.run).record
        if not latest.state.is_final:
            raise _in_use(latest, planned_locations(new)[_KEY])


def _place(run: RunRecord, is_rehearsal: bool) -> tuple[str, str] | None:
    """The location of checkpoints, and what sees it: buckets, a cluster or this machine."""
    location = planned_locations(run).get(_KEY)
    if not location:
        return None
    if "://" in location:
        return "rehearsal" if is_rehearsal else "cloud", location.rstrip("/")
    connection = (run.plan.get("request") or {}).get("connection")
    return (str(connection), location) if connection else ("", os.path.realpath(location))


def require_same_cluster(request: Mapping[str, Any], reference: str) -> None:
    """Raise RsctlError if the connections of the two lead to different clusters."""
    run = find_run(reference).record
    location, before = planned_locations(run).get(_KEY, ""), run.plan.get("request") or {}
    connections = before.get("connection"), request.get("connection")
    if connections[0] != connections[1] and "://" not in location:
        where = f"{run.run} was sent by {connections[0]}, and this job is sent by {connections[1]}"
        raise RsctlError(ExitCode.USAGE, _elsewhere(where, location))


def _checkpoints_of(run: RunRecord, target: TargetInfo, is_rehearsal: bool) -> str:
    location = planned_locations(run).get(_KEY)
    if not location:
        message = f"{run.run} has no checkpoints: its job did not keep them"
        remedy = "set checkpoints in the job, and let the script save to RSCTL_CHECKPOINT_DIR"
        raise _refused(message, remedy)
    if not run.state.is_final:
        raise _in_use(run, location)
    finding = _out_of_sight(run, location, target, is_rehearsal)
    if finding is not None:
        raise RsctlError(ExitCode.USAGE, finding)
    from rsctl.api.fetching import has_checkpoints  # costs each submission 15 ms

    if has_checkpoints(run) is False:
        message = f"{run.run} has no checkpoints: {location} has no file"
        raise _refused(message, "let the script save to RSCTL_CHECKPOINT_DIR")
    return location


def _out_of_sight(
    run: RunRecord, location: str, target: TargetInfo, is_rehearsal: bool
) -> Finding | None:
    """Why jobs of a target do not see the checkpoints; None if they do."""
    if is_rehearsed(run.run) is not is_rehearsal:
        one, other = ("was", "is not") if is_rehearsed(run.run) else ("was not", "is")
        return _elsewhere(f"{run.run} {one} a rehearsal, and this job {other}", location)
    where = f"{run.run} ran on target {run.target}, and this job runs on target {target.name}"
    scheme = location.partition("://")[0] if "://" in location else "file"
    if scheme not in target.schemes:
        return _elsewhere(where, location)
    both_here = not (target.is_managed or target_info(run.target).is_managed)
    if scheme == "file" and run.target != target.name and not both_here:
        return _elsewhere(where, location)
    return None


def _elsewhere(where: str, location: str) -> Finding:
    message = f"the job cannot see the checkpoints in {location}: {where}"
    remedy = "submit it where the run was; or copy them, and name the copy: --set checkpoints=..."
    return error("resume", message, remedy, _KEY)


def _in_use(run: RunRecord, location: str) -> RsctlError:
    message = f"{run.run} is {run.state.value}, and two runs would write to {location}"
    return _refused(message, f"wait for its end, or cancel it: rsctl cancel {run.run}")


def _refused(message: str, remedy: str) -> RsctlError:
    return RsctlError(ExitCode.USAGE, error("resume", message, remedy, _KEY))
