"""`rsctl submit JOB`: prepare, send, watch.

A signal that asks the command to end raises KeyboardInterrupt, see `rsctl.cli.interrupts`. The step
that it interrupts handles it:

prepare  `no_job_errors`: no job exists, so the command ends with exit code 5.
send     `_send`: a job that was started is cancelled and watched to its end. Below it only
         `JobCreator` and the remote image builders catch the exception: they must wait for the
         answer to their request to know what to cancel, and then raise it again.
watch    `follow`: detaches from the run, or cancels it.

An error after the target has accepted the job is a ResultUnknown, see `rsctl.cli.accepted`.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Optional

import typer

from rsctl.api import JobFile, PreparedRun, Run, load, plan, prepare
from rsctl.cli import options
from rsctl.cli.accepted import latest_record, once_accepted
from rsctl.cli.command import Command, make_command
from rsctl.cli.error_events import errors_as_events, interrupted, show_as_events_too
from rsctl.cli.fetching import fetch_after
from rsctl.cli.follow import follow
from rsctl.cli.interrupts import Interrupts, cancels_on_interrupt
from rsctl.cli.runs import show_outdated
from rsctl.cli.show import print_events, print_message, show_findings
from rsctl.cli.tracking import wait_for_trackers
from rsctl.cli.views.build import QuietBuildView, make_build_view
from rsctl.cli.views.next_commands import next_commands, resume_command
from rsctl.cli.views.run import make_view
from rsctl.findings import ExitCode

_SCRIPT = "A script without a job file"

_Job = Annotated[
    str,
    typer.Argument(
        metavar="JOB", help="A job file; - is standard input; or a script, such as train.py."
    ),
]
_Arguments = Annotated[
    list[str],
    typer.Argument(metavar="[-- ARGS...]", help="For a script: its arguments."),
]
_Workers = Annotated[
    Optional[int],
    typer.Option(
        "--workers",
        metavar="N",
        min=1,
        rich_help_panel=_SCRIPT,
        help="Number of nodes, as workers.count. Default: 1.",
    ),
]
_PrintJob = Annotated[
    bool,
    typer.Option(
        "--print-job",
        rich_help_panel=_SCRIPT,
        help="Print the job file that is equivalent to the command, and run nothing.",
    ),
]
Detach = Annotated[
    bool,
    typer.Option("--detach", "-d", help="Return as soon as the target has accepted the job."),
]
Get = Annotated[
    Optional[str],
    typer.Option(
        "--get",
        metavar="DIR",
        help="When the run ends, download its results to this folder, in any final state.",
    ),
]


class _Submit(Command):
    """Works like other commands, except that an unknown option may be one of the script's."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Explain where a script's options belong, if one is mistaken for an option of rsctl."""
        has_script = any(word.endswith(".py") for word in args)
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter:
            raise
        except Exception as problem:
            if has_script and hasattr(problem, "option_name") and hasattr(problem, "message"):
                problem.message += "; write arguments of the script after --, as in -- --lr 0.1"
            raise


@make_command("submit", cls=_Submit, json_errors=False)
def command(
    context: typer.Context,
    job: _Job,
    arguments: _Arguments = [],
    target: options.Target = None,
    settings: options.Settings = [],
    workers: _Workers = None,
    print_job: _PrintJob = False,
    detach: Detach = False,
    resume: options.Resume = None,
    get: Get = None,
    cancel_on_interrupt: options.CancelOnInterrupt = None,
    rehearse: options.Rehearse = False,
    rehearse_with: options.RehearseWith = "auto",
    behaviour: options.Behaviour = [],
    output: options.Output = "text",
) -> int:
    """Run a job and watch it until it ends.

    
    rsctl submit job.yaml
    rsctl submit train.py --workers 2 -- --lr 0.1     without a job file
    rsctl submit job.yaml --resume @last              from that run's checkpoints

    Exit code: 0 succeeded, 1 failed, 5 cancelled, 6 a limit was reached; 2, 3 or 4 if it was not
    accepted; 9 if it was accepted and its result is unknown; 130 if you left it running.
    """
    options.require_rehearsal(context, rehearse, rehearse_with, behaviour)
    if get is not None and detach:
        context.fail(
            "--get downloads results when the run ends, and --detach does not wait for that"
        )
    text = _script_text(context, job, arguments, workers, print_job)
    path = job if text is None else f"(job of {Path(job).name})"
    if print_job:
        if resume is not None:
            context.fail("--print-job does not print what --resume adds; use --set checkpoints=")
        with no_job_errors(output):
            _print_job(path, text, [*settings, *([f"target={target}"] if target else [])], rehearse)
        return int(ExitCode.SUCCEEDED)

    interrupts = context.with_resource(Interrupts().listening())
    with no_job_errors(output):
        rehearsal = options.chosen_rehearsal(rehearse, rehearse_with, behaviour)
        file = load(path, set=settings, text=text, strict=False)
        prepared = prepare(file, target, rehearse=rehearsal, resume=resume)
    again = partial(
        resume_command,
        job=job,
        target=target,
        workers=workers,
        arguments=arguments,
        rehearsal=prepared.rehearsal_options,
    )
    return send_and_follow(
        context, prepared, file, interrupts, detach, get, cancel_on_interrupt, output, again
    )


def send_and_follow(
    context: typer.Context,
    prepared: PreparedRun,
    file: JobFile | None,
    interrupts: Interrupts,
    detach: bool,
    get: str | None,
    cancel_on_interrupt: bool | None,
    output: str,
    resume: Callable[[Run], str],
) -> int:
    """Send a run, and watch it unless it is detached; `resume` is the command that continues it.

    Returns the exit code.
    """
    show_as_events_too(prepared.findings, file, output)
    view = make_view(output, prepared.run_id, prepared.replicas, prepared.work)
    context.call_on_close(view.close)

    with no_job_errors(output, prepared.run_id), once_accepted(prepared.accepted):
        run, is_taken_back = _send(prepared, interrupts)
    with no_job_errors(output, run.id), once_accepted(lambda: latest_record(run)):
        if detach and not is_taken_back:
            return _detached(run, output)
        noun = "replica" if len(run.replicas) == 1 else "replicas"
        print_message(f"{run.id} on {prepared.plan.target}, {len(run.replicas)} {noun}")
        cancels = is_taken_back or cancels_on_interrupt(cancel_on_interrupt)
        exit_code = follow(run, view, interrupts, cancels)
        if exit_code != ExitCode.INTERRUPTED:
            _finish(run, get, output, resume(run))
        return exit_code


def _script_text(
    context: typer.Context, job: str, arguments: list[str], workers: int | None, print_job: bool
) -> str | None:
    """The job file for a script; None if `job` is a job file, which takes no such options."""
    if job.endswith(".py"):
        return script_job(job, arguments, workers or 1)
    if arguments or workers is not None or print_job:
        wrong = "--workers" if workers is not None else "--print-job" if print_job else arguments[0]
        instead = _as_settings(arguments, workers)
        context.fail(
            f"{wrong} requires a script, such as train.py, and {job} is a job file"
            + (f"; use {instead}" if instead else "")
        )
    return None


def _as_settings(arguments: list[str], workers: int | None) -> str:
    """The options that give a job file these arguments and workers; empty if there are none."""
    from rsctl.job.command_text import as_mapping

    settings = [] if workers is None else [f"workers.count={workers}"]
    given = as_mapping(arguments)
    if given is None:
        settings.append(f"run.args={json.dumps(arguments)}")
    else:
        settings += [f"run.args.{n}={'true' if v is True else v}" for n, v in given.items()]
    return " ".join(f"--set {shlex.quote(setting)}" for setting in settings)


def script_job(script: str, arguments: list[str], workers: int) -> str:
    """Create the job for a script in this folder or below it. Raises RsctlError."""
    from rsctl.job.command_text import job_text
    from rsctl.job.from_command import read_command

    with suppress(ValueError):
        script = str(Path(os.path.realpath(script)).relative_to(Path.cwd()))
    return job_text(read_command([script, *arguments])._replace(nodes=workers), Path())


def _print_job(path: str, text: str | None, settings: list[str], rehearse: bool) -> None:
    """Print the job file for a script with its settings. Raises RsctlError."""
    from rsctl.job.tree_text import equivalent_text

    file = load(path, set=settings, text=text, strict=False)
    findings = plan(file, rehearse=rehearse).findings
    show_findings([finding for finding in findings if finding.severity != "note"], file)
    typer.echo(equivalent_text(file.document, settings), nl=False)


@contextmanager
def no_job_errors(output: str, run: str | None = None) -> Iterator[None]:
    """As `errors_as_events`, with an interruption as an error: no job exists."""
    with errors_as_events(output, run):
        try:
            yield
        except KeyboardInterrupt:
            raise interrupted("nothing was submitted") from None


class _Sent(NamedTuple):
    """A run with a job. If it `is_taken_back`, an interruption came and the job is cancelled."""

    run: Run
    is_taken_back: bool


def _send(prepared: PreparedRun, interrupts: Interrupts) -> _Sent:
    """Send the run; an interruption takes it back. No signal interrupts what follows.

    Raises RsctlError, also for an interruption before a job was started.
    """
    view = make_build_view() if prepared.plan.image.tag else QuietBuildView()
    try:
        prepared.update_earlier_runs(show_outdated)
        prepared.require_free_checkpoints()
        run = prepared.send(view.show)
        interrupts.hold()  # in here: a signal between `send` and this must not leave the job alone
        return _Sent(run, is_taken_back=False)
    except KeyboardInterrupt:
        interrupts.hold()
        interrupts.count = max(interrupts.count, 1)  # so that `follow` cancels at once
        cancelled = prepared.cancel()
        if cancelled is None:
            raise interrupted(f"{prepared.run_id} is cancelled") from None
        return _Sent(cancelled, is_taken_back=True)
    finally:
        view.finish()


def _finish(run: Run, get: str | None, output: str, resume: str) -> None:
    """Download the results of a run that has ended, if asked for; name the next commands."""
    if get is not None:
        fetch_after(run, get)
    wait_for_trackers(run.record)
    if output != "json":
        print_message(next_commands(run, has_files=get is None, resume=resume))


def _detached(run: Run, output: str) -> int:
    if output == "json":
        print_events([run.result(exit_code=int(ExitCode.SUCCEEDED))])
    else:
        typer.echo(run.id)
        print_message(f"watch it: rsctl watch {run.id}   cancel it: rsctl cancel {run.id}")
    return int(ExitCode.SUCCEEDED)
