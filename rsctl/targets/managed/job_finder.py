"""Finds a run's job in the cloud, even if its submission was killed before the answer."""

from __future__ import annotations

from time import time

from rsctl.findings import JobState
from rsctl.job.units import Duration
from rsctl.runs import emulator
from rsctl.runs.folder import RunFolder
from rsctl.runs.placements import is_ending
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.stream.events import StateEvent, now
from rsctl.targets.managed.service import CloudJob, JobService, answer_of

_IN_FLIGHT_SECONDS = 30.0  # which the request of a killed process may take to arrive
AWAITED_SECONDS = 10.0  # the same while a command waits for the end of a cancelled run


def find_job(run: RunRecord, store: Store, service: JobService) -> CloudJob | None:
    """The job of a run; None if it has none (yet).

    Only a killed submission leaves a run without its job's URL. Raises RsctlError.
    """
    if run.is_located:
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
    request that it has sent may still arrive. A cancelled run ends within seconds.
    """
    is_moving = any(placement.ended for placement in run.placements)
    if run.state.is_final or run.is_located or (is_moving and not emulator.is_lost(run.run)):
        return
    state, reason = JobState.FAILED, "it was killed before the job was sent"
    seconds = _IN_FLIGHT_SECONDS + service.settled_after
    waits = (
        "its submission was killed before the cloud had answered: the run fails if no job appears "
        f"within {Duration(seconds)} of the request"
    )
    if is_ending(store, run.run):
        state, seconds = JobState.CANCELLED, AWAITED_SECONDS
        if RunFolder(run.run).last_request() is not None:
            reason = (
                "its submission was killed, and the cloud shows no job of it: should one appear "
                "after all, cancel it there"
            )
    if emulator.is_lost(run.run) or not _may_arrive(run.run, seconds):
        code = int(state.exit_code)
        store.record(run.run, StateEvent(time=now(), state=state, exit_code=code, reason=reason))
    elif state is JobState.FAILED and run.reason != waits:
        store.record(run.run, StateEvent(time=now(), state=run.state, reason=waits))


def _may_arrive(run: str, seconds: float) -> bool:
    requested = RunFolder(run).last_request()
    return requested is not None and time() - requested <= seconds
