"""`reducers.count: auto` if the job describes its steps: the number that advice recommends.

It does not ask the constants that were fitted to runs of this machine, so that a job is planned
alike everywhere; `rsctl advise --write` does.
"""

from __future__ import annotations

from typing import NamedTuple

from rsctl.estimate.advice.calibration import uncalibrated
from rsctl.estimate.advice.cluster import ModelledCluster
from rsctl.estimate.advice.inputs import dollars_of, interconnect_of, settings_of
from rsctl.estimate.advice.options import Study
from rsctl.estimate.advice.profile import Profile, profile_of_model
from rsctl.estimate.advice.recommendation import recommended
from rsctl.estimate.advice.situation import ReducerMachine, Situation
from rsctl.estimate.catalog import Machine
from rsctl.job.job import Job


class Automatic(NamedTuple):
    """A number of reducers, and why it is that."""

    reducers: int
    why: str


def automatic_reducers(
    job: Job, target: str, worker: Machine, reducer: Machine
) -> Automatic | None:
    """The number for these machines of a cloud; None if `model` does not say enough."""
    profile = _profile(job)
    accelerator = job.workers.accelerator
    bits = worker.bandwidth(accelerator)
    if profile is None or not bits or not reducer.gbps:
        return None
    cluster = ModelledCluster(
        workers=job.workers.count,
        worker_bits=bits * 1e9,
        ranks=job.workers.ranks,
        worker_cores=worker.vcpus,
        inside=interconnect_of(job, accelerator),
    )
    situation = Situation(
        target=target,
        cluster=cluster,
        worker_machine=worker.name,
        worker_dollars=dollars_of(job, target, worker.name, accelerator),
        reducer_machines=(
            ReducerMachine(
                name=reducer.name,
                bits=reducer.gbps * 1e9,
                cores=reducer.vcpus,
                dollars=dollars_of(job, target, reducer.name),
            ),
        ),
        settings=settings_of(job),
    )
    return _best(situation, profile)


def _profile(job: Job) -> Profile | None:
    model = job.model
    if model is None or not model.parameters or not model.step_seconds:
        return None
    return profile_of_model(model)


def _best(situation: Situation, profile: Profile) -> Automatic:
    study = Study(situation, profile, uncalibrated(situation.target))
    [base], pools = study.without_reducers(), study.with_reducers()
    is_free = not (pools and situation.settings.reducers_only)
    best = recommended([base, *pools] if is_free else pools)
    without = f"a step of {base.step_seconds:.3g} s without"
    if not best.reducers:
        reason = "they would cost more than they save" if situation.is_priced else "no gain"
        return Automatic(
            0, f"{reason}, according to model.step_seconds: {without}; see rsctl advise"
        )
    return Automatic(
        best.reducers,
        f"according to model.step_seconds {without}, {best.step_seconds:.3g} s with "
        "them; see rsctl advise",
    )
