"""Advice on a job: its plans, prices and profile, for `rsctl.estimate.advice`. Sends nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from rsctl.api.advice_situation import make_situation, rate_assumption
from rsctl.api.calibration import calibration_of
from rsctl.api.job_file import AnyJob, JobFile, Settings, load, setting_texts, source_of, target_of
from rsctl.api.step_profiles import profile_of_job, profile_of_run
from rsctl.estimate.advice.calibration import Calibration
from rsctl.estimate.advice.communication import Communication, exchange_alone, sharded_communication
from rsctl.estimate.advice.inputs import has_spot_price
from rsctl.estimate.advice.profile import DTYPE_BYTES, Profile
from rsctl.estimate.advice.recommendation import Advice, make_advice
from rsctl.estimate.advice.situation import Situation
from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.job.document import Document
from rsctl.job.edit import write_values
from rsctl.job.job import Job
from rsctl.plan import make_plan, name_of
from rsctl.runs.ids import placeholder
from rsctl.targets.base import Target
from rsctl.targets.managed.rehearsal.job import complete_job

_NOT_PRINTED = ("every_option", "default_machine")
_MODEL = "model: {parameters: 340M, dtype: bf16, step_seconds: 0.4}"


class SweptAdvice(msgspec.Struct, frozen=True, kw_only=True):
    """Advice for each value of one key."""

    key: str
    values: list[object]
    advice: list[Advice]


def advise(
    job: AnyJob,
    target: str | None = None,
    *,
    run: str | None = None,
    profile: Profile | None = None,
    calibration: Calibration | None = None,
) -> Advice:
    """Which topology and how many reducers a job should have, with time and money of each option.

    The work of a step comes from the `profile`, from the profile of a `run` (its id, a prefix or
    @last), or the job's `model`, or the result of `measure` for its script. A `calibration`
    replaces the target's own.

    Raises RsctlError for a job that cannot be planned, and if the work of a step is unknown.
    """
    source, spec, chosen, situation, defaults = _situation(job, target)
    if situation.sharded:
        message = f"{situation.refused}; there is no step of DistributedDataParallel to predict"
        remedy = "see the communication of a step: rsctl advise JOB, with model.parameters"
        raise RsctlError(ExitCode.USAGE, error("advise", message, remedy))
    known = profile or (profile_of_run(run) if run else _require_profile(source, spec))
    model = spec.model
    return make_advice(
        situation,
        known,
        calibration or calibration_of(chosen.info.name),
        steps=model.steps if model else None,
        batch=model.batch if model else None,
        assumptions=[*defaults, *_assumptions(spec, situation)],
    )


def communication(
    job: AnyJob, target: str | None = None, *, profile: Profile | None = None
) -> Communication | None:
    """The communication of a step alone, where `advise` cannot predict the step.

    That is so for a script that shards its model by FSDP or ZeRO, and for a job whose computation
    is unknown. None for other jobs, and if the size of the model is unknown, too. Raises RsctlError
    for a job that cannot be planned.
    """
    _, spec, chosen, situation, defaults = _situation(job, target)
    known = profile or profile_of_job(spec)
    model = spec.model
    size = model.parameters * DTYPE_BYTES[model.dtype] if model and model.parameters else None
    size = known.gradient_bytes if known else size
    if size is None or (known and not situation.sharded):
        return None
    calibration = calibration_of(chosen.info.name)
    if situation.sharded:
        step = known.step_seconds if known else None
        made = sharded_communication(situation, size, step, calibration)
    else:
        made = exchange_alone(situation, size, calibration)
    assumed = [*made.assumptions, *defaults, *_assumptions(spec, situation)[1:]]
    return msgspec.structs.replace(made, assumptions=assumed)


def _situation(
    job: AnyJob, target: str | None
) -> tuple[Document | Job, Job, Target, Situation, list[str]]:
    """A job with defaults, its target and machines, and what is assumed. Raises RsctlError."""
    source, _ = source_of(job)
    chosen = target_of(source, target)
    source, defaults = _completed(source, chosen)
    planned = make_plan(source, chosen, placeholder(name_of(source)))
    spec = source if isinstance(source, Job) else source.require_job()
    return source, spec, chosen, make_situation(spec, planned, chosen), defaults


def advise_sweep(
    job: JobFile,
    key: str,
    values: Sequence[object],
    target: str | None = None,
    *,
    run: str | None = None,
    profile: Profile | None = None,
    calibration: Calibration | None = None,
) -> SweptAdvice:
    """Advice for each value of a key of a job file. Raises RsctlError for the first that fails.

    Advice always compares numbers of reducers, so `reducers.count` is refused.
    """
    if key == "reducers.count":
        message = "advice compares different numbers of reducers"
        raise RsctlError(
            ExitCode.USAGE, error("advise", message, "to see them: --plot, or -o json")
        )
    jobs = [_with(job, {key: value}) for value in values]
    for each in jobs:  # before the first of them takes its time
        each.copy_document().require_job()
    made = [
        advise(each, target, run=run, profile=profile, calibration=calibration) for each in jobs
    ]
    return SweptAdvice(key=key, values=list(values), advice=made)


def write_recommendation(path: str, advice: Advice) -> dict[str, str]:
    """Write the recommended reducers into a job file, whose text stays as it is otherwise.

    Returns the written values by key. Raises RsctlError where that cannot be done safely.
    """
    chosen = advice.recommendation
    values = {"reducers.count": str(chosen.reducers)}
    if chosen.reducers and chosen.reducer_machine != advice.default_machine:
        values["reducers.machine"] = f"{{{advice.target}: {chosen.reducer_machine}}}"
    if not chosen.reducers:
        comm = load(path, strict=False).spec.comm
        if comm.backend == "rsctl":
            values["comm.backend"] = "auto"  # rsctl's own is by reducers only
        if comm.has_8_bits:
            values["comm.compression"] = "none"  # only reducers can add 8 bits
    write_values(path, values)
    return values


def _with(job: JobFile, settings: Mapping[str, object]) -> JobFile:
    more: Settings = (*job.settings, *setting_texts(settings))
    return load(job.path, set=more, text=job.text, strict=False)


def _completed(source: Document | Job, target: Target) -> tuple[Document | Job, list[str]]:
    """The job with defaults for values that only an account has, and the assumptions in them."""
    job = source if isinstance(source, Job) else source.job
    if job is None or target.info.emulator is None:
        return source, []
    completed = complete_job(job, target.info.name).job
    before, after = (target.info.options_of(each) for each in (job, completed))
    defaults = []
    if getattr(before, "region", None) != getattr(after, "region", None):
        defaults.append(f"using region {after.region}, because the job names none")
    return completed if isinstance(source, Job) else replace(source, job=completed), defaults


def advice_json(advice: Advice) -> dict[str, Any]:
    """The output of `-o json`; without the profile's buckets, of which there can be a thousand."""
    shown: dict[str, Any] = msgspec.to_builtins(advice)
    for name in _NOT_PRINTED:
        del shown[name]
    del shown["profile"]["buckets"]
    return shown


def _require_profile(source: Document | Job, spec: Job) -> Profile:
    profile = profile_of_job(spec)
    if profile is not None:
        return profile
    finding = _no_profile(spec)
    if isinstance(source, Document):
        source.add([finding])
        source.require_job()
    raise RsctlError(ExitCode.USAGE, finding)


def _no_profile(spec: Job) -> Finding:
    model = spec.model
    if model is None:
        message, path = (
            "the size of the gradients and the time of a step are unknown",
            None,
        )
    else:
        lacking = "step_seconds" if model.parameters else "parameters"
        message, path = f"advice needs model.{lacking}", "model"
    remedy = (
        f"add it to the file, such as {_MODEL}; or measure it with --measure; or take it from a "
        "run with --run RUN"
    )
    return error("advise", message, remedy, path)


def _assumptions(spec: Job, situation: Situation) -> list[str]:
    """The assumptions about the machines."""
    cluster = situation.cluster
    assumptions = ["the compute time of a worker does not depend on the number of workers"]
    if cluster.worker_bits:
        bits = cluster.worker_bits
        assumptions.append(rate_assumption(situation.target, situation.worker_machine, bits))
    if spec.comm.compression == "powersgd":
        assumptions.append("PowerSGD is not modeled: gradients count at full size")
    if spec.comm.hook is not None:
        assumptions.append("comm.hook is not modeled: gradients count at full size")
    if situation.reducer_machines and cluster.inside and cluster.shares_work:
        assumptions.append("each bucket is copied completely between GPU and host")
    if situation.is_priced and has_spot_price(spec, situation.target):
        assumptions.append("at spot prices, without the time lost to preemptions")
    elif situation.is_priced and spec.limits.spot:
        assumptions.append("at on-demand prices: spot machines are billed for fewer seconds")
    return assumptions
