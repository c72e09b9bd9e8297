"""`rsctl submit JOB`: plan, record, send, watch."""

from __future__ import annotations

import os

import click
import msgspec

from rsctl.cli import options
from rsctl.cli.follow import follow
from rsctl.cli.show import say, show_findings
from rsctl.cli.views import make_view
from rsctl.findings import ExitCode, JobState, RsctlError, error
from rsctl.plan import choose_target, make_plan
from rsctl.runs.ids import new_run_id
from rsctl.runs.store import Run, Store
from rsctl.spec.document import read
from rsctl.spec.job import Job
from rsctl.stream.events import StateEvent, now
from rsctl.targets.base import Plan, Target, metric_specs


@click.command("submit", help="Run a job and watch it to its end.")
@options.job_argument
@options.job_options
@click.option("--detach", "-d", is_flag=True, help="Return as soon as the job has been accepted.")
@click.option(
    "--cancel-on-interrupt/--detach-on-interrupt",
    default=None,
    help="What Ctrl-C does. Default: detach; cancel if CI=true.",
)
@options.output_option
@options.talk_options
def command(
    job: str,
    target: str | None,
    settings: tuple[str, ...],
    detach: bool,
    cancel_on_interrupt: bool | None,
    output: str,
) -> int:
    """Exit with the job's exit code, see `rsctl.findings.ExitCode`."""
    document = read(job, settings)
    place = choose_target(document, target)
    run = new_run_id(document.job.name if document.job else "run")
    plan, spec = make_plan(document, place, run)
    _refuse_matrix(spec)
    show_findings(plan.findings, document.text)
    missing = place.preflight(spec)
    if missing:
        raise RsctlError(ExitCode.ENVIRONMENT, *missing)

    store = Store()
    clear_killed_runs(store, place)
    send(store, place, plan, spec)
    if detach:
        return _detached(plan, store, output)
    specs = metric_specs(spec)
    replicas = [f"{pool.role}-{i}" for pool in plan.pools for i in range(pool.count)]
    say(f"{plan.run} on {plan.target}, {len(replicas)} replicas")
    view = make_view(output, plan.run, replicas)
    if cancel_on_interrupt is None:
        cancel_on_interrupt = os.environ.get("CI") == "true"
    return follow(place, plan.run, specs, view, cancel_on_interrupt)


def send(store: Store, target: Target, plan: Plan, job: Job) -> None:
    """Record the run, then submit it; whatever stops the submission is recorded too."""
    url = f"{plan.target}://{plan.run}"
    shown = msgspec.to_builtins(plan)
    store.add(
        Run(
            run=plan.run,
            name=job.name,
            target=plan.target,
            url=url,
            state=JobState.QUEUED,
            created=now(),
            plan=shown,
            metrics_spec=metric_specs(job),
        )
    )
    try:
        target.submit(plan, job, say)
    except RsctlError as problem:
        _record_end(store, plan.run, JobState.FAILED, str(problem))
        raise
    except KeyboardInterrupt:
        _record_end(store, plan.run, JobState.CANCELLED, "interrupted while it was submitted")
        raise


def clear_killed_runs(store: Store, target: Target) -> None:
    """Clear away what killed runs on this target have left."""
    for run in store.unfinished(target.name):
        target.reconcile(run.run)


def _record_end(store: Store, run: str, state: JobState, reason: str) -> None:
    event = StateEvent(time=now(), state=state, exit_code=int(state.exit_code), reason=reason)
    store.record(run, event)


def _detached(plan: Plan, store: Store, output: str) -> int:
    from rsctl.cli.show import print_json

    if output == "json":
        print_json(store.get(plan.run))
    else:
        click.echo(plan.run)
        say(f"watch it: rsctl logs -f {plan.run}   end it: rsctl cancel {plan.run}")
    return int(ExitCode.SUCCEEDED)


def _refuse_matrix(job: Job) -> None:
    if job.matrix:
        raise RsctlError(
            ExitCode.USAGE,
            error(
                "matrix",
                "submit runs one job, not the cells of a matrix",
                "see its cells with `rsctl plan`; take the matrix out and set one cell by --set",
                "matrix",
            ),
        )
