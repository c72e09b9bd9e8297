"""`rsctl submit JOB`: plan, record, send, watch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Annotated, Optional

import typer

from rsctl.cli import options
from rsctl.cli.build_view import QuietBuildView, make_build_view
from rsctl.cli.command import make_command
from rsctl.cli.follow import follow, make_result
from rsctl.cli.interrupts import Interrupts
from rsctl.cli.rehearse import Rehearse
from rsctl.cli.runs import bring_all_up_to_date
from rsctl.cli.show import print_events, print_message, show_findings
from rsctl.cli.views import make_view
from rsctl.findings import ExitCode, Finding, JobState, RsctlError, error, note
from rsctl.plan import choose_target, make_plan, name_of
from rsctl.runs.folder import RunFolder
from rsctl.runs.ids import new_run_id
from rsctl.runs.store import Store
from rsctl.spec.document import Document, read
from rsctl.stream.events import FindingEvent, ResultEvent, StateEvent, now
from rsctl.targets.base import (
    Plan,
    Submission,
    Target,
    Unanswered,
    metric_specs,
    new_run,
    replica_names,
)

_NO_MATRIX = error(
    "matrix",
    "submit runs one job, not the cells of a matrix",
    "run them all: rsctl bench run JOB; see them: rsctl plan JOB",
    "matrix",
)


_REHEARSAL = "Rehearsal"


@make_command("submit")
def command(
    context: typer.Context,
    job: options.Job,
    target: options.Target = None,
    settings: options.Settings = [],
    detach: Annotated[
        bool,
        typer.Option("--detach", "-d", help="Return as soon as the job has been accepted."),
    ] = False,
    cancel_on_interrupt: Annotated[
        Optional[bool],
        typer.Option(
            "--cancel-on-interrupt/--detach-on-interrupt",
            help="What Ctrl-C does. Default: detach; cancel if CI=true.",
        ),
    ] = None,
    rehearse: Annotated[
        bool,
        typer.Option(
            "--rehearse",
            rich_help_panel=_REHEARSAL,
            help="Let this machine play the cloud; send nothing.",
        ),
    ] = False,
    rehearse_with: Annotated[
        options.Runner,
        typer.Option(
            "--rehearse-with",
            rich_help_panel=_REHEARSAL,
            help="How the nodes are run. auto: docker if an engine answers.",
        ),
    ] = "auto",
    behaviour: Annotated[
        list[str],
        typer.Option(
            "--behaviour",
            metavar="NAME=VALUE",
            rich_help_panel=_REHEARSAL,
            help="How the cloud behaves, such as preemptions=1; docs/clouds.md has all. "
            "Repeatable.",
        ),
    ] = [],
    output: options.Output = "text",
) -> int:
    """Run a job and watch it to its end.

    Exit code: 0 succeeded, 1 failed, 5 cancelled, 6 a limit passed; 2, 3 or 4 if it was not
    accepted; 130 if you left it running.
    """
    if not rehearse and (behaviour or rehearse_with != "auto"):
        option = "--behaviour" if behaviour else "--rehearse-with"
        context.fail(f"{option} is for --rehearse, which was not given.")
    interrupts = Interrupts()
    context.with_resource(interrupts.listening())
    with _errors_as_events(output):
        document = read(job, settings)
        place = choose_target(document, target)
        rehearsal = Rehearse(place.name, rehearse_with, behaviour) if rehearse else None
        submission = _planned(document, place, output, rehearsal)
    plan = submission.plan
    store = Store()
    replicas = replica_names(plan.pools)
    view = make_view(output, plan.run, replicas)
    context.call_on_close(view.close)
    if cancel_on_interrupt is None:
        cancel_on_interrupt = os.environ.get("CI") == "true"
    with _errors_as_events(output, plan):
        clear_killed_runs(store, place)
        with rehearsal.playing(submission) if rehearsal else nullcontext(submission) as sent:
            is_wanted = send(store, place, sent, settings, interrupts)
    if detach and is_wanted:
        return _detached(plan, store, output)
    noun = "replica" if len(replicas) == 1 else "replicas"
    print_message(f"{plan.run} on {plan.target}, {len(replicas)} {noun}")
    cancels = cancel_on_interrupt or not is_wanted
    with _errors_as_events(output, plan):
        exit_code = follow(place, plan.run, metric_specs(submission.job), view, interrupts, cancels)
    if rehearsal and exit_code != ExitCode.INTERRUPTED:
        rehearsal.end(plan)
    return exit_code


@contextmanager
def _errors_as_events(output: str, plan: Plan | None = None) -> Iterator[None]:
    """What stops a submission is told as events too, so that a result always ends the stream."""
    try:
        yield
    except (RsctlError, KeyboardInterrupt) as caught:
        problem = (
            caught if isinstance(caught, RsctlError) else _interrupted("nothing was submitted")
        )
        if output == "json":
            print_events([*_finding_events(problem.findings), _result(problem, plan)])
        raise problem from None


def _interrupted(what: str) -> RsctlError:
    return RsctlError(ExitCode.CANCELLED, note("interrupted", f"interrupted: {what}"))


def _result(problem: RsctlError, plan: Plan | None) -> ResultEvent:
    """The last event of a run that was not submitted, as far as anybody knows."""
    known = Store().get(plan.run) if plan else None
    is_cancelled = problem.exit_code is ExitCode.CANCELLED
    return ResultEvent(
        time=now(),
        run=plan.run if plan else None,
        state=known.state if known else JobState.CANCELLED if is_cancelled else JobState.FAILED,
        exit_code=int(problem.exit_code),
        url=known.url if known else None,
    )


def _finding_events(findings: Iterable[Finding]) -> list[FindingEvent]:
    return [FindingEvent(time=now(), finding=finding) for finding in findings]


def _planned(
    document: Document, target: Target, output: str, rehearsal: Rehearse | None
) -> Submission:
    """A job that this environment can run; shows what the user should know of it."""
    made_up = rehearsal.prepare(document) if rehearsal else []
    submission = make_plan(document, target, new_run_id(name_of(document)))
    if submission.job.matrix:
        document.add([_NO_MATRIX])
        document.require_job()
    lacking = rehearsal.findings(submission) if rehearsal else target.preflight(submission)
    missing = [finding for finding in lacking if finding.is_error]
    findings = [finding for finding in submission.plan.findings if finding.severity != "note"]
    findings += [finding for finding in [*made_up, *lacking] if not finding.is_error]
    show_findings(findings, document)
    if output == "json":
        print_events(_finding_events(findings))
    if missing:
        raise RsctlError(ExitCode.ENVIRONMENT, *missing)
    return submission


def send(
    store: Store,
    target: Target,
    submission: Submission,
    settings: Iterable[str],
    interrupts: Interrupts,
) -> bool:
    """Record the run and submit it; whatever stops the submission is recorded too.

    Where the answer was lost nothing is, so that the next command looks for the job. Returns
    whether the run is still wanted: one that had begun when it was interrupted is to be followed
    to its end, which the interruption asks for.
    """
    plan, run = submission.plan, new_run(submission, settings)
    view = make_build_view() if plan.image.tag else QuietBuildView()
    try:
        target.submit(submission, lambda: store.add(run), view.show)
        interrupts.hold()
    except Unanswered:
        raise
    except RsctlError as problem:
        _record_end(store, plan.run, JobState.FAILED, str(problem))
        raise
    except KeyboardInterrupt:
        interrupts.count = max(interrupts.count, 1)
        if _has_begun(store, plan):
            return False
        reason = "interrupted while it was submitted"
        _record_end(store, plan.run, JobState.CANCELLED, reason)
        raise _interrupted(f"{plan.run} is cancelled") from None
    finally:
        view.finish()
    return True


def _has_begun(store: Store, plan: Plan) -> bool:
    """Whether there is a job in the cloud, or a supervisor on this machine."""
    known = store.get(plan.run)
    supervisor = RunFolder(plan.run).supervisor()
    is_located = known is not None and known.url != f"{plan.target}://{plan.run}"
    return is_located or supervisor not in (None, os.getpid())


def clear_killed_runs(store: Store, target: Target) -> None:
    """Clear away what killed runs on this target have left."""
    bring_all_up_to_date(store.unfinished(target.name))


def _record_end(store: Store, run: str, state: JobState, reason: str) -> None:
    event = StateEvent(time=now(), state=state, exit_code=int(state.exit_code), reason=reason)
    store.record(run, event)


def _detached(plan: Plan, store: Store, output: str) -> int:
    if output == "json":
        print_events([make_result(plan.run, store.get(plan.run), {}, int(ExitCode.SUCCEEDED))])
    else:
        typer.echo(plan.run)
        print_message(f"watch it: rsctl logs -f {plan.run}   end it: rsctl cancel {plan.run}")
    return int(ExitCode.SUCCEEDED)
