"""Checks of the spec's `tracking:` list, and what it takes to reach each service."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Optional
from urllib.parse import urlsplit

import msgspec

from rsctl.findings import SECRET, Finding, error
from rsctl.job.job import Job
from rsctl.job.options_common import first_of
from rsctl.job.tracking import NOTIFY, PlannedTracker, Tracking
from rsctl.job.units import URL_REMEDY, EnvReference
from rsctl.target_info import TrackerInfo, import_object, target_info

_CREDENTIALS = {
    "mlflow": "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD",
    "wandb": "WANDB_API_KEY",
}
"""Keys whose values are addresses, and what their credentials are given by instead."""


def check_tracking(job: Job) -> Iterator[Finding]:
    """Findings about the list of trackers of a job."""
    seen: dict[str, int] = {}
    for index, tracking in enumerate(job.tracking):
        path = f"tracking[{index}]"
        yield from _credential_findings(tracking, path)
        if len(tracking.given) != 1:
            message = "an item configures one service: " + (
                " and ".join(tracking.given) or "the item names no service"
            )
            remedy = "write a list of mappings with one key: [{tensorboard: DIR}, {mlflow: URI}]"
            yield error("tracking", message, remedy, path)
            continue
        for name in tracking.of_targets:
            check = import_object(_tracker_of(name).check)
            yield from check(job, getattr(tracking, name), f"{path}.{name}")
        planned = planned_tracker(tracking, job)
        key = msgspec.json.encode(planned).decode()
        if key in seen:
            message = f"this duplicates tracking[{seen[key]}]"
            yield error("tracking", message, "remove one of the two", path)
        seen.setdefault(key, index)


def _credential_findings(tracking: Tracking, path: str) -> Iterator[Finding]:
    """Addresses with a user or a password in them."""
    for key, variables in _CREDENTIALS.items():
        if urlsplit(getattr(tracking, key) or "").username is not None:
            message = "the address contains a user or a password, which would be saved and shown"
            yield error(SECRET, message, f"remove it, and set {variables}", f"{path}.{key}")


def check_tracking_on(job: Job, target: str) -> Iterator[Finding]:
    """Findings about trackers that only some targets have."""
    for index, tracking in enumerate(job.tracking):
        if target in tracking.given or is_sent(tracking):
            continue
        for name in tracking.of_targets:
            title = target_info(name).title
            message = f"target {target}: only {title} jobs can belong to its experiments"
            remedy = f"remove it, or submit with --target {name}"
            yield error("unsupported", message, remedy, f"tracking[{index}].{name}")


def check_notify(job: Job) -> Iterator[Finding]:
    """Findings about the receivers of messages, also of a job that was made in Python."""
    seen: dict[str, int] = {}
    for index, each in enumerate(job.notify):
        path = f"notify[{index}].url"
        if not re.fullmatch(EnvReference.pattern, each.url):
            message = "a URL of Apprise contains credentials, and here it would be saved and shown"
            yield error(SECRET, message, URL_REMEDY, path)
        elif each.url in seen:
            message = f"this duplicates notify[{seen[each.url]}]"
            yield error("notify", message, "list all events in one item", path)
        seen.setdefault(each.url, index)


def planned_notifications(job: Job) -> list[PlannedTracker]:
    """The receivers of messages, as trackers."""
    return [
        PlannedTracker(kind=NOTIFY, location=str(each.url), events=list(each.on))
        for each in job.notify
    ]


def is_sent(tracking: Tracking) -> bool:
    """Whether rsctl sends a run there; otherwise the job's request names the tracker."""
    return all(_tracker_of(name).client is not None for name in tracking.of_targets)


def planned_tracker(tracking: Tracking, job: Job) -> PlannedTracker:
    """A tracker with all that it takes to reach it."""
    kind = tracking.given[0]
    value = getattr(tracking, kind)
    plan = _tracker_of(kind).plan if kind in tracking.of_targets else None
    if plan is not None:
        planned: PlannedTracker = import_object(plan)(job, value)
        return planned
    location = str(value)
    region = _region_of_buckets(job, "s3") if location.startswith("s3://") else None
    return PlannedTracker(kind=kind, location=location, region=region)


def _tracker_of(target: str) -> TrackerInfo:
    tracker = target_info(target).tracker
    if tracker is None:
        raise LookupError(f"target {target} has no tracker")
    return tracker


def _region_of_buckets(job: Job, scheme: str) -> Optional[str]:
    """The region of the job's target whose buckets these are."""
    infos = [target_info(name) for name in job.targets.__struct_fields__]
    regions = [info.options_of(job).region for info in infos if info.staging_scheme == scheme]
    return first_of(next(iter(regions), None))
