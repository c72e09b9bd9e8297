"""`rsctl bench run JOB`: run the cells of its matrix, each repeated, until they end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Annotated, Any, NamedTuple, Optional

import typer

from rsctl.api import (
    Bench,
    Budget,
    CiReport,
    PreparedBench,
    Stop,
    announce_reports,
    load,
    prepare_bench,
    write_reports,
)
from rsctl.api.ci_reports import UNGATED_REPORTS
from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.error_events import finding_events, interrupted, show_as_events_too
from rsctl.cli.errors import keep_verdict
from rsctl.cli.interrupts import Interrupts, cancels_on_interrupt
from rsctl.cli.output import OUTPUT_LOST, abandon_stdout, abandon_unread, without_reader
from rsctl.cli.show import print_events, print_message
from rsctl.cli.tracking import wait_for_bench_trackers
from rsctl.cli.views.bench import BenchView, make_bench_view, print_result
from rsctl.findings import ExitCode, Finding, RsctlError, counted, warning
from rsctl.runs.stream.events import now

_MOST_REPETITIONS = 1000


@make_command("run", json_errors=False)
def command(
    context: typer.Context,
    job: options.Job,
    target: options.Target = None,
    settings: options.Settings = [],
    parallel: options.Parallel = None,
    repeat: Annotated[
        Optional[int],
        typer.Option(
            "--repeat",
            "-r",
            metavar="N",
            min=1,
            max=_MOST_REPETITIONS,
            help="Number of runs of each cell, in an order that is balanced over cells. Default: "
            "gate.repeat of the file, otherwise 1.",
        ),
    ] = None,
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast", help="Cancel all runs when one fails.")
    ] = False,
    new: options.New = False,
    pack: options.Pack = None,
    max_cost: options.MaxCost = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Run in the background and return.")
    ] = False,
    cancel_on_interrupt: options.CancelOnInterrupt = None,
    rehearse: options.Rehearse = False,
    rehearse_with: options.RehearseWith = "auto",
    behaviour: options.Behaviour = [],
    reports: Annotated[list[CiReport], options.report_option(UNGATED_REPORTS)] = [],
    output: options.Output = "text",
) -> int:
    """Run the cells of a job file's matrix that have not succeeded yet.

    A bench with --rehearse is marked as rehearsed, and no gate accepts it. Exit code: the worst
    exit code of the runs.
    """
    options.require_rehearsal(context, rehearse, rehearse_with, behaviour)
    if detach and job == "-":
        context.fail("--detach needs a job file: the background process reads it again")
    _require_written_here(context, reports, detach)
    interrupts = context.with_resource(Interrupts().listening())
    with _errors_as_events(output), errors_in_junit(reports, job, [{}]):
        settings = options.with_pack(settings, pack)
        file = load(job, set=settings, strict=False)
        rehearsal = options.chosen_rehearsal(rehearse, rehearse_with, behaviour)
        prepared = prepare_bench(file, target, rehearse=rehearsal)
        show_as_events_too(prepared.findings, file, output)
        bench = prepared.claim(repeat, new=new)
        if not rehearse:
            Budget(max_cost).reserve(prepared.remaining(bench))
    if detach:
        from rsctl.cli.bench_detach import detach_bench

        return detach_bench(bench, settings, parallel, fail_fast, target, output)
    view = make_bench_view(output, prepared.metric_specs)
    context.call_on_close(view.close)
    chosen = RunOptions(parallel, fail_fast, cancels_on_interrupt(cancel_on_interrupt))
    interrupts.hold()  # until `drive`, which decides what an interruption ends
    announce_reports(reports, prepared.name, bench.cells)
    exit_code = drive(prepared, bench, view, chosen, interrupts)
    if not reports:
        return exit_code
    results = bench.results()
    files = [partial(write_reports, [each], prepared.name, results) for each in reports]
    return keep_verdict(exit_code, *files)


def _require_written_here(context: typer.Context, reports: list[CiReport], detach: bool) -> None:
    """Raise an error for a report that this command cannot write."""
    if reports and detach:
        context.fail("--report is written when the bench ends, and --detach does not wait for that")
    if any(report.kind not in UNGATED_REPORTS for report in reports):
        context.fail(
            "--report markdown shows a verdict, and this command decides none: use rsctl "
            "gate or rsctl compare"
        )


@contextmanager
def errors_in_junit(
    reports: Sequence[CiReport],
    name: str,
    cells: Sequence[dict[str, Any]],
    checks: Sequence[str] = (),
) -> Iterator[None]:
    """Announce the reports; an error is the reason in the JUnit file. Raises RsctlError."""
    announce_reports(reports, name, cells, checks)
    try:
        yield
    except RsctlError as problem:
        kept = [report for report in reports if report.kind == "junit"]
        keep_verdict(1, partial(announce_reports, kept, name, cells, checks, problem.summary))
        raise


class RunOptions(NamedTuple):
    """The number of concurrent runs, and the conditions that end them early.

    With `raises`, an error that ends the bench is not shown but raised, unless runs continue.
    """

    parallel: int | None
    fail_fast: bool
    cancel_on_interrupt: bool
    raises: bool = False


def drive(
    prepared: PreparedBench,
    bench: Bench,
    view: BenchView,
    chosen: RunOptions,
    interrupts: Interrupts,
) -> int:
    """Run the bench until it ends or is interrupted; returns the exit code. May raise RsctlError.

    Until the first run is sent, an interruption ends the command immediately. After that, the first
    interruption is handled in order, and a second one stops the wait for runs that are being
    cancelled.
    """
    problem, begun = None, now()
    for remark in prepared.remarks(bench):
        print_message(remark)
    try:
        interrupts.follow(None)
        prepared.run(
            bench,
            parallel=chosen.parallel,
            fail_fast=chosen.fail_fast,
            observer=view,
            stop=lambda: _stop_asked_for(interrupts, chosen),
        )
    except KeyboardInterrupt:
        abandon_unread(1, 2)
        _stop_waiting(bench, chosen, interrupts)
    except OSError as lost:
        if lost.errno not in OUTPUT_LOST:
            raise
        abandon_stdout()
        _stop_waiting(bench, chosen, interrupts)
        return int(ExitCode.INTERRUPTED)
    except RsctlError as caught:
        problem = caught
    interrupts.hold()
    bench.reload()
    exit_code = int(problem.exit_code if problem else bench.exit_code)
    if interrupts.count and not chosen.cancel_on_interrupt and not bench.is_complete:
        exit_code = int(ExitCode.INTERRUPTED)
    may_continue = exit_code in (ExitCode.INTERRUPTED, ExitCode.RESULT_UNKNOWN)
    is_raised = chosen.raises and not may_continue
    shown = problem.findings if problem and not is_raised else ()
    findings = [*shown, *_neighbour_findings(bench, begun)]
    with without_reader():
        for finding in findings:
            view.finding(finding)
        view.finish(bench, exit_code)
    if exit_code != ExitCode.INTERRUPTED:
        wait_for_bench_trackers(bench)
    if problem and is_raised:
        raise problem
    return exit_code


def _neighbour_findings(bench: Bench, begun: str) -> list[Finding]:
    """A warning about other runs on this machine, which may have slowed those of the bench."""
    others = bench.neighbours(begun)
    if not others:
        return []
    runs = counted(len(others), "other run")
    message = f"{runs} on this machine, such as {others[0]}, may have slowed the runs of {bench.id}"
    return [warning("neighbours", message, "measure again with --new when no other run is active")]


def _stop_asked_for(interrupts: Interrupts, chosen: RunOptions) -> Stop:
    """The action that the interruptions so far request; called once the runs are being started."""
    interrupts.follow(_nothing)
    if not interrupts.count:
        return None
    return "cancel" if chosen.cancel_on_interrupt else "leave"


def _nothing() -> None:
    """Count an interruption; the next round handles it."""


def _stop_waiting(bench: Bench, chosen: RunOptions, interrupts: Interrupts) -> None:
    """Ask the selected runs to end, without waiting for them."""
    interrupts.hold()
    if chosen.cancel_on_interrupt:
        bench.request_cancel()


@contextmanager
def _errors_as_events(output: str) -> Iterator[None]:
    """Print an error that stops a bench before it begins as events too, with the result last."""
    try:
        yield
    except (RsctlError, KeyboardInterrupt) as caught:
        problem = caught if isinstance(caught, RsctlError) else interrupted("nothing was submitted")
        if output == "json":
            with suppress(OSError):  # standard output may be what failed
                print_events(finding_events(problem.findings))
                print_result(None, [], int(problem.exit_code))
        raise problem from None
