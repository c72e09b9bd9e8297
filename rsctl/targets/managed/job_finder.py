"""Finds a run's job in the cloud, also where its submission was killed before it had the answer."""

from __future__ import annotations

from rsctl.findings import ExitCode, JobState
from rsctl.runs import emulator
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.stream.events import StateEvent, now, seconds_between
from rsctl.targets.managed.service import CloudJob, JobService, answer_of

_LOST_AFTER = 300.0
"""Seconds after which a submission is assumed never sent, if no process works on it and the cloud
does not know it.
"""


def find_job(run: RunRecord, store: Store, service: JobService) -> CloudJob | None:
    """The job of a run; None if it has none (yet). A run that will have none is recorded failed.

    Only a killed submission leaves a run without its job's URL. Raises RsctlError.
    """
    if run.url != f"{run.target}://{run.run}":
        return service.open(run.url)
    is_gone = emulator.is_lost(run.run)
    url = None if is_gone else answer_of(lambda: service.find(run.plan.get("request", {}), run.run))
    if url is not None:
        store.locate(run.run, url)
        return service.open(url)
    is_old = seconds_between(run.created, now()) > _LOST_AFTER
    is_moving = any(placement.ended for placement in run.placements)
    if not run.state.is_final and (is_gone or (is_old and not is_moving)):
        _give_up(store, run.run)
    return None


def _give_up(store: Store, run: str) -> None:
    event = StateEvent(
        time=now(),
        state=JobState.FAILED,
        exit_code=int(ExitCode.JOB_FAILED),
        reason="it was killed before the job was sent",
    )
    store.record(run, event)
