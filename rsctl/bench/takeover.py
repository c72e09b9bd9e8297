"""Takes over the trials that an earlier driver of a bench has begun."""

from __future__ import annotations

from rsctl.bench.follower import Follower
from rsctl.bench.live_record import CurrentBench
from rsctl.bench.outcomes import Outcomes
from rsctl.bench.packed import trials_in
from rsctl.bench.records import Trial
from rsctl.findings import JobState
from rsctl.runs.ids import packed_job
from rsctl.runs.store import Store
from rsctl.target_info import target_info


def take_over(current: CurrentBench, follower: Follower, outcomes: Outcomes) -> list[Trial]:
    """Follow the active runs, record those that have ended in the meantime, and complete logs.

    Reads the logs of ended runs that their cloud did not let the earlier driver read. Returns the
    runs that were recorded, but perhaps not sent.
    """
    ended = [t for t in current.record.latest().values() if t.state is JobState.SUCCEEDED]
    follower.collect(trial.run for trial in ended if packed_job(trial.run) is None)
    unsent = []
    for trial in current.unfinished():
        if _may_be_unsent(current.store, trial.run):
            follower.drop(trial.run)
            unsent.append(trial)
            continue
        active = follower.add(trial)
        active.trial = trial
        active.poll()
        if active.is_over:
            follower.drop(trial.run)
            outcomes.record_end(active, is_driver=True)
            for one in trials_in(trial):
                if one.state is not JobState.SUCCEEDED:
                    current.retry(one)
    return unsent


def _may_be_unsent(store: Store, run: str) -> bool:
    """Whether a run may have no job yet: a second submission then finds the first's."""
    record = store.get(run)
    if record is None:
        return True
    is_in_cloud = target_info(record.target).is_managed and not record.state.is_final
    return is_in_cloud and not record.is_located
