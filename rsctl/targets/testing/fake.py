"""Target `fake`: the smallest one that keeps the contract of `rsctl.targets.base.Target`.

It runs the job's command once, as a process of this machine. Copy it to start a target of your own,
see docs/targets.md. A run's folder and the store do most of the work:

- `submit` makes the folder, records the run, then starts the job. The folder's lock belongs to the
  process that manages the job: here a separate process, which outlives the command line.
- That process (`fake_job`) writes the log with `JournalWriter` and states with `Recorder`.
- `events` reads both with `RunReader`, which keeps the cursor; so does `tail`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from time import sleep
from typing import Annotated, Any

import msgspec

import rsctl_start
from rsctl.findings import Finding, JobState, error
from rsctl.images.events import Show
from rsctl.job.inputs import inputs_of
from rsctl.job.job import Job
from rsctl.runs.final_state import final_state
from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.runs.home import run_directory
from rsctl.runs.reader import RunReader, cursor_before_last
from rsctl.runs.recorder import Recorder
from rsctl.runs.store import Store
from rsctl.runs.stream.events import Cursor, Event
from rsctl.target_info import TargetInfo, Unsupported
from rsctl.targets.base import ImagePlan, Plan, Pool, Submission, metric_specs, replica_names
from rsctl.targets.launch_command import user_command
from rsctl.targets.variables import secret_names, secret_values, user_env

_WORKER = "worker-0"
_CANCELLED = "cancelled"
_ONE = Unsupported("it runs one process", "remove it, or use another target")
_ONE_ATTEMPT = Unsupported("it starts the command once", "remove it, or use another target")
_NO_LIMIT = Unsupported("it waits for the command to end", "remove it, or use another target")
_NO_PRICE = Unsupported("this machine has no price", "remove limits.cost")
_NO_PACKAGE = Unsupported("it has no containers", "set image.source: FOLDER in its place")
_NO_LAUNCHER = Unsupported("it starts the command alone", "remove it, or use another target")
_NO_CONTAINERS = "it has no containers"
_THIS_MACHINE = "it runs on this machine"

_OF_IMAGES = (
    *("uri", "base", "dockerfile", "env", "run", "python", "secrets", "apt", "transport"),
    *("repository", "platform"),
)


class FakeOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of `targets.fake` in a job file."""

    niceness: Annotated[
        int, msgspec.Meta(description="How far the job stands back.", ge=0, le=19)
    ] = 0


INFO = TargetInfo(
    name="fake",
    title="a process of this machine",
    target="rsctl.targets.testing.fake:TARGET",
    options="rsctl.targets.testing.fake:FakeOptions",
    refused={
        "run.launcher": Unsupported(
            "it starts the command alone",
            "use run.launcher: once",
            frozenset({"mpi", "none"}),
        ),
        "run.package": _NO_PACKAGE,
        "workers.count": _ONE,
        "workers.processes": _ONE,
        "reducers.count": _ONE,
        "limits.timeout": _NO_LIMIT,
        "limits.grace": _NO_LIMIT,
        "limits.stall": _NO_LIMIT,
        "limits.on_stall": _NO_LIMIT,
        "limits.stop_signal": Unsupported("it ends the command by SIGTERM", "leave it out"),
        "limits.restarts_in_place": _ONE_ATTEMPT,
        "limits.keep": _NO_LAUNCHER,
        "limits.retries": _ONE_ATTEMPT,
        "limits.restarts": _ONE_ATTEMPT,
        "limits.cost": _NO_PRICE,
        **dict.fromkeys(("checks.network", "checks.gpu", "checks.cpu"), _NO_LAUNCHER),
    },
    unused={
        **dict.fromkeys(("workers.machine", "workers.disk", "workers.accelerator"), _THIS_MACHINE),
        **dict.fromkeys(("limits.queue", "limits.spot"), _THIS_MACHINE),
        **{f"image.{key}": _NO_CONTAINERS for key in _OF_IMAGES},
    },
)


class FakeTarget:
    """One process on this machine."""

    def __init__(self, info: TargetInfo = INFO) -> None:
        self.info = info

    def render(self, job: Job, run: str) -> Submission:
        """The command and its environment. Nothing but the job and the run's id goes in."""
        findings: list[Finding] = []
        if job.run.launcher == "torchrun":  # the default, which `refused` cannot name
            message, remedy = "target fake starts only the command", "use run.launcher: once"
            findings.append(error("unsupported", message, remedy, "run.launcher"))
        env = {
            **{
                job_input.variable: str(job_input.location)
                for job_input in inputs_of(job, self.info.name)
            },
            "RSCTL_RUN": run,
            "RSCTL_TARGET": self.info.name,
            "RSCTL_REPLICA": _WORKER,
            "RSCTL_OUTPUT_DIR": str(job.outputs or run_directory(run) / "outputs"),
            **({"RSCTL_CHECKPOINT_DIR": str(job.checkpoints)} if job.checkpoints else {}),
            **user_env(job),  # a secret is None
        }
        command = user_command(job) if job.run.program else [sys.executable, *user_command(job)]
        request = {
            "command": command,
            "env": env,
            "folder": str(job.image.source or run_directory(run)),
            "niceness": self.info.options_of(job).niceness,
        }
        plan = Plan(
            run=run,
            target=self.info.name,
            image=ImagePlan(tag=None, transport="none"),
            pools=[Pool(role="worker", count=1)],
            world_size=1,
            env=env,
            request=request,
            findings=findings,
        )
        return Submission(plan, job, secrets=secret_names(job, has_reducers=False))

    def preflight(self, submission: Submission) -> list[Finding]:
        """Nothing is needed but this Python."""
        return []

    def have_image(self, submission: Submission, show: Show) -> str | None:
        """There are no containers."""
        return None

    def submit(self, submission: Submission, record: Callable[[], None], show: Show) -> None:
        """Create the folder, record the run, start the process that manages the job."""
        plan = submission.plan
        folder = RunFolder(plan.run)
        description = RunDescription(
            run=plan.run,
            target=plan.target,
            request=plan.request,
            replicas=replica_names(plan.pools),
            metrics=metric_specs(submission.job),
        )
        lock = folder.begin(description)
        if lock is None:  # the run has already started: this call finds its job
            return
        try:
            record()
            os.makedirs(plan.env["RSCTL_OUTPUT_DIR"] or "", exist_ok=True)
            with folder.supervisor_log.open("ab") as log:
                process = subprocess.Popen(
                    [*rsctl_start.command("rsctl.targets.testing.fake_job"), plan.run, str(lock)],
                    env={**os.environ, **secret_values(submission)},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=[lock],
                    start_new_session=True,
                )
            folder.claim(lock, process.pid)
        finally:
            os.close(lock)  # the process has its own hold on it

    def events(self, run: str, since: Cursor, follow: bool) -> Iterator[list[Event]]:
        """The events in the folder, until the job has ended or no process manages it."""
        folder = RunFolder(run)
        reader = RunReader(folder, since)
        try:
            while True:
                is_going_on = follow and folder.is_supervised()
                if not is_going_on:
                    self.reconcile(run)
                batch = reader.read(complete=not is_going_on)
                if batch:
                    yield batch
                elif not is_going_on or reader.ended:
                    return
                else:
                    yield []
                    sleep(0.05)
        finally:
            reader.close()

    def results(self, plan: Mapping[str, Any]) -> dict[str, str]:
        """The folder for outputs."""
        return {"outputs": plan["env"]["RSCTL_OUTPUT_DIR"]}

    def pages(self, url: str, plan: Mapping[str, Any]) -> dict[str, str]:
        """See Target.pages."""
        return {}

    def tail(self, run: str, lines: int) -> Cursor:
        """A cursor from which at least the last `lines` lines of the run follow."""
        return cursor_before_last(RunFolder(run), lines)

    def reconcile(self, run: str) -> None:
        """A run that no process manages has ended, regardless of the store."""
        folder, store = RunFolder(run), Store()
        record = store.get(run)
        if record and not record.state.is_final and not folder.is_supervised():
            record = store.get(run)  # it may have ended meanwhile
        if record and not record.state.is_final and not folder.is_supervised():
            if ended := final_state(run):
                store.record(run, ended)
            else:
                folder.path.mkdir(parents=True, exist_ok=True)
                recorder = Recorder(folder, store)
                is_cancelled = (folder.path / _CANCELLED).exists()
                state = JobState.CANCELLED if is_cancelled else JobState.FAILED
                recorder.state(state, exit_code=int(state.exit_code), reason="it was killed")
                recorder.close()
        store.close()

    def poll(self, run: str) -> bool:
        """Whether it has ended."""
        if RunFolder(run).is_supervised():
            return False
        self.reconcile(run)
        return True

    def collect(self, run: str) -> None:
        """All of it is in the folder."""

    def release(self, run: str) -> None:
        """Nothing is kept of a run."""

    def cancel(self, run: str) -> None:
        """Ask the process that manages the job to end it; the process may no longer exist."""
        folder = RunFolder(run)
        process = folder.supervisor()
        if process is None or process == os.getpid():
            self.reconcile(run)
            return
        (folder.path / _CANCELLED).touch()  # should it end before it understands the signal
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)


TARGET = FakeTarget()
