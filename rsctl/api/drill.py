"""Drills: a job runs once without a fault and once under each fault, and is compared."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Optional, Union

import msgspec
from msgspec.structs import replace as with_fields

from rsctl.api.drill_faults import Fault, Situation, behaviour_of, chosen_faults, obstacle
from rsctl.api.drill_reference import make_reference, step_to_strike
from rsctl.api.drill_strike import is_out_of_stock, strike
from rsctl.api.drill_verdict import FaultResult, Reference, judge
from rsctl.api.drill_watch import Observation, RunWatch, StrikePlan
from rsctl.api.job_file import JobFile, load, source_of, target_of
from rsctl.api.submission import PreparedRun, prepare
from rsctl.bench.own_folders import with_own_folders
from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.job.job import Job
from rsctl.runs.ids import new_run_id
from rsctl.targets.managed.emulator.clouds import emulator_of
from rsctl.targets.managed.rehearsal.rehearsal import Rehearsal
from rsctl.targets.managed.rehearsal.settings import PACE

PATIENCE_SECONDS = 120.0
_AFTER_STALL_SECONDS = 60.0

OnStart = Callable[[str, str], object]
"""Gets the name of a fault, or `reference` or `resumed`, and the id of its run."""

OnResult = Callable[[FaultResult], object]
"""Gets the result of each fault."""


class Drill(msgspec.Struct, kw_only=True):
    """The result of a drill. `exit_code` is 0 if the job survived all faults, otherwise 1."""

    job: str
    target: str
    rehearsed: bool
    reference: str
    metric: str
    steps: int
    struck_at: int
    seconds: float
    faults: list[FaultResult]
    exit_code: int = 0


@dataclass(frozen=True)
class PreparedDrill:
    """A drill of which nothing has run yet.

    `findings` come from the plan of the job. `named` is whether the user has named the faults: one
    that is not possible then counts as not survived.
    """

    job: Job
    target: str
    faults: Sequence[Fault]
    situation: Situation
    findings: Sequence[Finding]
    rehearsal: Optional[Rehearsal]
    named: bool
    metric: Optional[str] = None
    step: Optional[int] = None
    patience: Optional[float] = None

    @property
    def possible(self) -> list[Fault]:
        """The faults that can strike the job on this target."""
        return [fault for fault in self.faults if obstacle(fault, self.situation) is None]

    def run(self, on_start: OnStart = lambda *_: None, on_result: OnResult = bool) -> Drill:
        """Run the reference and then each fault, one after the other. Raises RsctlError.

        An interruption cancels the current run, waits for its end, and is raised again.
        """
        results = [self._not_possible(fault) for fault in self.faults]
        if not self.possible:
            reasons = "; ".join(f"{r.fault}: {r.reasons[0]}" for r in results if r is not None)
            raise RsctlError(ExitCode.USAGE, error("faults", f"no fault is possible: {reasons}"))
        seen = self._watch("reference", on_start)
        reference = make_reference(seen, self.job, self.metric)
        step = step_to_strike(reference, self.step)
        done = []
        for fault, known in zip(self.faults, results, strict=True):
            result = known or self._strike(fault, reference, step, on_start)
            on_result(result)
            done.append(result)
        survived = all(
            r.verdict == "survived" or (r.verdict == "not-possible" and not self.named)
            for r in done
        )
        return Drill(
            job=self.job.name,
            target=self.target,
            rehearsed=self.rehearsal is not None,
            reference=reference.run,
            metric=reference.metric,
            steps=len(reference.steps),
            struck_at=step,
            seconds=reference.seconds,
            faults=done,
            exit_code=int(ExitCode.SUCCEEDED if survived else ExitCode.JOB_FAILED),
        )

    def _not_possible(self, fault: Fault) -> FaultResult | None:
        reason = obstacle(fault, self.situation)
        if reason is None:
            return None
        return FaultResult(fault=fault.name, verdict="not-possible", reasons=[reason])

    def _strike(
        self, fault: Fault, reference: Reference, step: int, on_start: OnStart
    ) -> FaultResult:
        plan = StrikePlan(
            step=step,
            strike=partial(strike, fault, self.situation),
            notice=fault.notice,
            confirm=is_out_of_stock if fault.kind == "stock-out" else None,
        )
        struck = self._watch(fault.name, on_start, reference.metric, fault, plan)
        resumed, refusal = None, ""
        if struck.hung is None and not struck.has_succeeded and not struck.not_struck:
            try:
                resumed = self._watch("resumed", on_start, reference.metric, resume=struck.run)
            except RsctlError as problem:
                refusal = problem.summary
        ends_stalls = self.job.limits.on_stall != "notify"
        return judge(fault, reference, struck, resumed, refusal, ends_stalls)

    def _patience(self) -> float:
        if self.patience is not None:
            return self.patience
        limits = self.job.limits
        if limits.on_stall == "notify" or not limits.stall:
            return PATIENCE_SECONDS
        return max(PATIENCE_SECONDS, float(limits.stall) + _AFTER_STALL_SECONDS)

    def _watch(
        self,
        name: str,
        on_start: OnStart,
        metric: str | None = None,
        fault: Fault | None = None,
        plan: StrikePlan | None = None,
        resume: str | None = None,
    ) -> Observation:
        """Run the job once, to its end. Raises RsctlError."""
        prepared = self._prepared(fault, resume)
        on_start(name, prepared.run_id)
        patience = None if metric is None else self._patience()
        watch: RunWatch | None = None
        try:
            prepared.update_earlier_runs()
            watch = RunWatch(prepared.send(), plan, metric, patience)
            return watch.follow()
        except BaseException:
            if watch is not None:
                watch.end()
            elif (run := prepared.cancel()) is not None:
                RunWatch(run).end()
            raise

    def _prepared(self, fault: Fault | None, resume: str | None) -> PreparedRun:
        run = new_run_id(self.job.name)
        job = self.job if resume else with_own_folders(self.job, run)
        rehearsal = self.rehearsal
        if rehearsal is not None:
            behaviour = {**_QUICK, **rehearsal.behaviour}
            if fault is not None:
                pace = float(behaviour.get("pace", PACE))
                behaviour |= behaviour_of(fault, self.situation, pace)
            rehearsal = replace(rehearsal, behaviour=behaviour)
        return prepare(job, self.target, run_id=run, rehearse=rehearsal, resume=resume)


_QUICK = {"ingest": 0}


def prepare_drill(
    job: Union[JobFile, str, os.PathLike[str]],
    target: str | None = None,
    *,
    faults: Sequence[str] = (),
    rehearse: Rehearsal | None = None,
    metric: str | None = None,
    step: int | None = None,
    patience: float | None = None,
) -> PreparedDrill:
    """Plan a drill of a job under faults (default: all); its `run` runs it.

    On a cloud a drill is a rehearsal. `metric` is compared (default: the loss). The faults strike
    at `step` (default: the middle of the job, after its first checkpoint). A run without progress
    for `patience` seconds hangs.

    Raises RsctlError with all errors of the job.
    """
    chosen = chosen_faults(faults)
    file = job if isinstance(job, JobFile) else load(job, strict=False)
    info = target_of(source_of(file)[0], target).info
    name = info.name
    if rehearse is None and info.is_managed:
        message = f"a drill takes machines away, and does that on target {name} in a rehearsal only"
        remedy = "give --rehearse"
        if info.emulator is None:
            message = f"a drill takes machines away, and target {name} has no emulator for that"
            remedy = "use --target process or compose"
        raise RsctlError(ExitCode.USAGE, error("drill", message, remedy))
    prepared = prepare(file, target, rehearse=rehearse)
    submission = prepared.submission
    situation = Situation(
        target=name,
        in_containers=_in_containers(name, prepared),
        has_reducers=any(pool.role == "reducer" for pool in submission.plan.pools),
        is_spot=submission.job.limits.spot,
        has_processes=os.path.isdir("/proc/self"),
        behaviours=_behaviours(name) if rehearse else None,
    )
    return PreparedDrill(
        job=_alone(file.spec),
        target=name,
        faults=chosen,
        situation=situation,
        findings=prepared.findings,
        rehearsal=rehearse,
        named=bool(faults),
        metric=metric,
        step=step,
        patience=patience,
    )


def _alone(job: Job) -> Job:
    """The job without trackers, messages and kept nodes, which are for real runs."""
    return with_fields(job, tracking=[], notify=[], limits=with_fields(job.limits, keep=None))


def _behaviours(target: str) -> frozenset[str]:
    from importlib import import_module

    module = emulator_of(target).emulator.partition(":")[0]
    return frozenset(msgspec.to_builtins(import_module(module).Behaviour()))


def _in_containers(target: str, prepared: PreparedRun) -> bool:
    if prepared.rehearsal is None:
        return target == "compose"
    return prepared.rehearsal.runner == "docker"
