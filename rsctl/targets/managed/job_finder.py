"""Finds a run's job in the cloud, even if its submission was killed before the answer."""

from __future__ import annotations

from time import time

from rsctl.findings import ExitCode, JobState
from rsctl.runs import emulator
from rsctl.runs.folder import RunFolder
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.stream.events import StateEvent, now
from rsctl.targets.managed.service import CloudJob, JobService, answer_of

_IN_FLIGHT_SECONDS = 30.0  # which the request of a killed process may take to arrive


def find_job(run: RunRecord, store: Store, service: JobService) -> CloudJob | None:
    """The job of a run; None if it has none (yet).

    Only a killed submission leaves a run without its job's URL. Raises RsctlError.
    """
    if has_url(run):
        return service.open(run.url)
    if emulator.is_lost(run.run):
        return None
    url = answer_of(lambda: service.find(run.plan.get("request", {}), run.run))
    if url is None:
        return None
    store.locate(run.run, url)
    return service.open(url)


def give_up_if_lost(run: RunRecord, store: Store, service: JobService) -> None:
    """Record a run as failed if its submission was killed and no job can follow.

    For the holder of the run's lock, after `find_job` has found none: no submission is alive. A
    request that it has sent may still arrive.
    """
    is_moving = any(placement.ended for placement in run.placements)
    if run.state.is_final or has_url(run):
        return
    if emulator.is_lost(run.run) or not (is_moving or _may_arrive(run.run, service)):
        event = StateEvent(
            time=now(),
            state=JobState.FAILED,
            exit_code=int(ExitCode.JOB_FAILED),
            reason="it was killed before the job was sent",
        )
        store.record(run.run, event)


def has_url(run: RunRecord) -> bool:
    """Whether the run's job is known by its URL."""
    return run.url != f"{run.target}://{run.run}"


def _may_arrive(run: str, service: JobService) -> bool:
    requested = RunFolder(run).last_request()
    if requested is None:
        return False
    return time() - requested <= _IN_FLIGHT_SECONDS + service.settled_after
