"""Submissions: planned and checked, then sent once, or cancelled."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field

import msgspec

from rsctl.api.arguments import check_text
from rsctl.api.job_file import (
    AnyJob,
    JobFile,
    load,
    message_findings,
    rehearsed,
    source_of,
    target_of,
)
from rsctl.api.reconcile import OnOutdated, ignore, is_elsewhere, reconcile_all, reconcile_run
from rsctl.api.resuming import require_free_checkpoints, require_same_cluster, resumed
from rsctl.api.run_handle import Run
from rsctl.api.work import Work, work_of
from rsctl.findings import ExitCode, Finding, JobState, RsctlError, error
from rsctl.images.events import BuildEvent
from rsctl.job.document import Document
from rsctl.job.job import Job
from rsctl.plan import make_plan, name_of
from rsctl.runs import emulator
from rsctl.runs.folder import RunFolder
from rsctl.runs.ids import new_run_id, require_run_id
from rsctl.runs.origin import Origin, keep_origin
from rsctl.runs.placements import first_request
from rsctl.runs.records import RunRecord
from rsctl.runs.store import Store
from rsctl.runs.stream.events import StateEvent, now
from rsctl.targets.base import Plan, Submission, Target, Unanswered, new_run, replica_names
from rsctl.targets.managed.rehearsal.rehearsal import Rehearsal, RehearsedTarget

OnProgress = Callable[[BuildEvent], None]
"""Gets steps, lines and findings of the build of an image, if a build is necessary."""

_NO_MATRIX = error(
    "matrix",
    "submit runs one job, and this file has a matrix of cells",
    "to run all cells: rsctl bench run JOB; to run one: --set matrix=null and --set for each of "
    "its keys; to show them: rsctl plan JOB",
    "matrix",
)


@dataclass(frozen=True)
class PreparedRun:
    """A job that this environment can run, with its own run id; nothing is sent yet.

    `findings` are warnings of the plan and remarks of this environment.
    """

    submission: Submission = field(repr=False)
    findings: tuple[Finding, ...]
    settings: tuple[str, ...] = ()
    target: Target = field(repr=False, kw_only=True)
    rehearsal: RehearsedTarget | None = field(default=None, repr=False, kw_only=True)
    file: str = field(default="", kw_only=True)
    folder: str = field(default="", kw_only=True)

    @property
    def plan(self) -> Plan:
        """All that will be sent."""
        return self.submission.plan

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.plan.run

    @property
    def replicas(self) -> list[str]:
        """The names of its replicas."""
        return replica_names(self.plan.pools)

    @property
    def rehearsal_options(self) -> list[str]:
        """The options of a command that rehearses the job in the same way, if it is rehearsed."""
        return self.rehearsal.given.arguments if self.rehearsal is not None else []

    @property
    def work(self) -> Work:
        """The number of steps of a job, and its time limit."""
        return work_of(self.submission.job)

    def submit(
        self, on_progress: OnProgress | None = None, on_outdated: OnOutdated = ignore
    ) -> Run:
        """Send it; see `rsctl.api.submit`."""
        self.update_earlier_runs(on_outdated)
        earlier = self._earlier()
        if earlier is not None:
            return earlier
        self.require_free_checkpoints()
        try:
            return self.send(on_progress)
        except KeyboardInterrupt:
            self.cancel()
            raise

    def update_earlier_runs(self, on_outdated: OnOutdated = ignore) -> None:
        """Bring the target's unfinished runs on this machine up to date: a killed one may still
        have processes. Runs in a cloud are not asked about: they would only delay this one.
        """
        with closing(Store()) as store:
            runs = store.unfinished(self.plan.target)
        reconcile_all([run for run in runs if not is_elsewhere(run)], on_outdated)

    def require_free_checkpoints(self) -> None:
        """Raise RsctlError if an unfinished run writes to the checkpoints that the job names."""
        if self.submission.job.checkpoints is not None:
            new = new_run(self.submission, self.settings)
            require_free_checkpoints(new, self.rehearsal is not None)

    def send(self, on_progress: OnProgress | None = None) -> Run:
        """Send the request of a new run, once; `submit` calls this after its checks.

        Raises RsctlError; the error is recorded as the run's end. A KeyboardInterrupt leaves the
        run as it is: the caller must call `cancel`.
        """
        with closing(Store()) as store:
            origin = self._origin()  # before a file that the job writes can count as a change
            with self._emulating() as submission:
                self._send_request(store, submission, on_progress or (lambda _event: None))
            if origin is not None:
                # A job whose disk is full, or whose file's name is not UTF-8, runs on.
                with suppress(OSError, RsctlError, UnicodeEncodeError):
                    keep_origin(self.run_id, origin)
            _record_prediction(store, self.submission, self.target)
            record = store.find(self.run_id)
        if self.plan.tracking:
            from rsctl.results.tracking.background import follow_run

            follow_run(record)
        return Run(record)

    def _origin(self) -> Origin | None:
        """The origin of the run; None if its source cannot be read."""
        from rsctl.api.origins import make_origin  # which a plan does not need

        with suppress(OSError, RsctlError):
            return make_origin(self.submission, self.file, self.folder)
        return None

    def cancel(self) -> Run | None:
        """Cancel the job that an interrupted `send` has started; returns the run, which is ending.

        Returns None if no job had started: the run is recorded as cancelled, if it is recorded, and
        the emulator of a rehearsal ends. May be called again.
        """
        with closing(Store()) as store:
            record = store.get(self.run_id)
            if record is None or not self._has_begun(record):
                reason = "interrupted during submission"
                _record_end(store, self.run_id, JobState.CANCELLED, reason)
                emulator.end(self.run_id)
                return None
        run = Run(record)
        if not run.state.is_final:
            run.request_cancel()
        return run

    def accepted(self) -> RunRecord | None:
        """The record of the run if `send` has made its job, even if it then raised an error."""
        try:
            with closing(Store()) as store:
                record = store.get(self.run_id)
            return record if record is not None and self._has_begun(record) else None
        except RsctlError:  # the store cannot be read
            return None

    def _earlier(self) -> Run | None:
        """The run that an earlier submission under this id has begun. Raises RsctlError."""
        with closing(Store()) as store:
            record = store.get(self.run_id)
            if record is None:
                return None
            planned = msgspec.to_builtins(self.plan)["request"]
            sent = first_request(store, self.run_id) or record.plan.get("request")
            if (record.target, sent) != (self.plan.target, planned):
                message = f"the run ID {self.run_id} belongs to another job"
                finding = error("run-id", message, "give another run ID, or omit it")
                raise RsctlError(ExitCode.USAGE, finding)
            reconcile_run(record, ignore)
            record = store.find(self.run_id)
        return Run(record) if record.state.is_final or self._has_begun(record) else None

    def _send_request(self, store: Store, submission: Submission, show: OnProgress) -> None:
        """Record the run and submit it. Raises RsctlError, which is recorded as the run's end.

        Unanswered is not the end of the run: a job may exist, and the next command on the run looks
        for it.
        """
        record = new_run(submission, self.settings)
        try:
            self.target.submit(submission, lambda: self._record(store, record), show)
        except Unanswered:
            raise
        except RsctlError as problem:
            is_cancelled = problem.exit_code is ExitCode.CANCELLED
            state = JobState.CANCELLED if is_cancelled else JobState.FAILED
            _record_end(store, self.run_id, state, problem.summary)
            raise

    def _record(self, store: Store, run: RunRecord) -> None:
        """Record a run, unless it is submitted again after a lost answer and is already recorded.

        Raises RsctlError if another process has submitted one with these checkpoints meanwhile.
        """
        if store.get(run.run) is None:
            store.add(run)
        self.require_free_checkpoints()

    @contextmanager
    def _emulating(self) -> Iterator[Submission]:
        """The submission to send; for a rehearsal this starts the emulator to send it to."""
        if self.rehearsal is None:
            yield self.submission
        else:
            with self.rehearsal.emulating(self.submission) as submission:
                yield submission

    def _has_begun(self, known: RunRecord) -> bool:
        """Whether there is a job in the cloud, or a supervisor on this machine."""
        return known.is_located or RunFolder(self.run_id).supervisor() not in (None, os.getpid())


def prepare(
    job: AnyJob,
    target: str | None = None,
    *,
    run_id: str | None = None,
    rehearse: Rehearsal | None = None,
    resume: str | None = None,
) -> PreparedRun:
    """Plan a job and check that this environment can run it; its `submit` sends it.

    `resume` is an earlier run, whose checkpoints become the job's `checkpoints`.

    Raises RsctlError with all errors of the job, and all that is missing in this environment.
    """
    if run_id is not None:
        check_text("run_id", run_id)
        require_run_id(run_id)
    source, settings = source_of(job)
    chosen = target_of(source, target)
    rehearsal = RehearsedTarget(chosen.info.name, rehearse) if rehearse else None
    if resume is not None:
        file = job if isinstance(job, (Job, JobFile)) else load(job, strict=False)
        source, settings = source_of(resumed(file, resume, chosen.info, rehearse is not None))
    source, defaults = rehearsed(source, chosen.info.name) if rehearsal else (source, [])
    submission = make_plan(source, chosen, run_id or new_run_id(name_of(source)))
    _refuse_matrix(source, submission)
    if resume is not None:
        require_same_cluster(submission.plan.request, resume)
    lacking = rehearsal.findings(submission) if rehearsal else chosen.preflight(submission)
    messages = message_findings(submission.job)
    remarks = [finding for finding in [*defaults, *lacking, *messages] if not finding.is_error]
    planned = [finding for finding in submission.plan.findings if finding.severity != "note"]
    findings = (*planned, *remarks)
    missing = [finding for finding in lacking if finding.is_error]
    if missing:
        raise RsctlError(ExitCode.ENVIRONMENT, *findings, *missing)
    path, folder = ("", "") if isinstance(source, Job) else (source.path, source.folder)
    return PreparedRun(
        submission,
        findings,
        settings,
        target=chosen,
        rehearsal=rehearsal,
        file=os.path.abspath(path) if path not in ("", "-") else path,
        folder=folder,
    )


def submit(
    job: AnyJob,
    target: str | None = None,
    *,
    run_id: str | None = None,
    rehearse: Rehearsal | None = None,
    resume: str | None = None,
    on_progress: OnProgress | None = None,
    on_outdated: OnOutdated = ignore,
) -> Run:
    """Submit a job to a target (default: its own); returns once the target has accepted it.

    With your own `run_id` a second call finds the run of the first, even if the answer to the first
    was lost; without a `run_id` each call makes a run. With `rehearse` the cloud is emulated on
    this machine, and nothing is sent there. With `resume` the job continues from the checkpoints of
    that earlier run. `on_progress` gets the events of a build of the job's image, `on_outdated`
    warnings about the target's earlier runs on this machine, which are reconciled first.

    Raises RsctlError; an error after the start of the submission is recorded as the run's end. A
    KeyboardInterrupt cancels the job: rsctl waits for the answer to a request in progress and
    cancels its job, then raises it again. A second KeyboardInterrupt stops this wait.
    """
    prepared = prepare(job, target, run_id=run_id, rehearse=rehearse, resume=resume)
    return prepared.submit(on_progress, on_outdated)


def _refuse_matrix(source: Document | Job, submission: Submission) -> None:
    if not submission.job.matrix:
        return
    if isinstance(source, Job):
        raise RsctlError(ExitCode.USAGE, _NO_MATRIX)
    source.add([_NO_MATRIX])
    source.require_job()


def _record_end(store: Store, run: str, state: JobState, reason: str) -> None:
    event = StateEvent(time=now(), state=state, exit_code=int(state.exit_code), reason=reason)
    store.record(run, event)


def _record_prediction(store: Store, submission: Submission, target: Target) -> None:
    """The predicted step time, for comparison with the measured time."""
    if submission.plan.world_size > 1:
        from rsctl.api.prediction import record_prediction  # for runs that exchange gradients

        record_prediction(store, submission, target)
