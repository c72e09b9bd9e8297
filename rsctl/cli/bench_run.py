"""`rsctl bench run JOB`: the cells of its matrix, each repeated, to their end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, NamedTuple, Optional

import typer

from rsctl.api import (
    Bench,
    CiReport,
    JobFile,
    PreparedBench,
    Stop,
    announce_reports,
    load,
    prepare_bench,
    write_reports,
)
from rsctl.api.ci_reports import FIGURES_ALONE
from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.follow import OUTPUT_LOST, abandon_stdout
from rsctl.cli.interrupts import Interrupts, cancels_on_interrupt
from rsctl.cli.show import print_events, show_findings
from rsctl.cli.tracking import wait_for_bench_trackers
from rsctl.cli.views.bench import BenchView, make_bench_view, print_result
from rsctl.findings import ExitCode, RsctlError, note
from rsctl.runs.stream.events import FindingEvent, now

_MOST_REPETITIONS = 1000


@make_command("run")
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
            help="How often each cell is run, in an order that is balanced over cells. "
            "Default: gate.repeat of the file, else 1.",
        ),
    ] = None,
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast", help="End all with the first failure.")
    ] = False,
    new: options.Anew = False,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Let it go on in the background.")
    ] = False,
    cancel_on_interrupt: options.CancelOnInterrupt = None,
    reports: Annotated[list[CiReport], options.report_option(FIGURES_ALONE)] = [],
    output: options.Output = "text",
) -> int:
    """Run what is missing of a job file's matrix, or failed before.

    Exit code: that of the worst run.
    """
    if detach and job == "-":
        context.fail("--detach needs a job file: it is read again in the background.")
    _require_written_here(context, reports, detach)
    interrupts = Interrupts()
    context.with_resource(interrupts.listening())
    with _errors_as_events(output):
        file = load(job, set=settings, strict=False)
        prepared = prepare_bench(file, target)
        _show_findings(prepared, file, output)
        bench = prepared.claim(repeat, anew=new)
    if detach:
        from rsctl.cli.bench_detach import detach_bench

        return detach_bench(bench, parallel, fail_fast, target, output)
    view = make_bench_view(output, prepared.metric_specs)
    context.call_on_close(view.close)
    chosen = RunOptions(parallel, fail_fast, cancels_on_interrupt(cancel_on_interrupt))
    interrupts.hold()  # until `drive`, which decides what an interruption ends
    announce_reports(reports, prepared.name, bench.cells)
    exit_code = drive(prepared, bench, view, chosen, interrupts)
    if reports:
        write_reports(reports, prepared.name, bench.results())
    return exit_code


def _require_written_here(context: typer.Context, reports: list[CiReport], detach: bool) -> None:
    """Fails for a report that this command cannot write."""
    if reports and detach:
        context.fail("--report is written at the end, which --detach does not wait for.")
    if any(report.kind not in FIGURES_ALONE for report in reports):
        context.fail("--report markdown is of a verdict: see rsctl gate, or rsctl compare.")


class RunOptions(NamedTuple):
    """How many runs at once, and what ends them early."""

    parallel: int | None
    fail_fast: bool
    cancel_on_interrupt: bool


def drive(
    prepared: PreparedBench,
    bench: Bench,
    view: BenchView,
    chosen: RunOptions,
    interrupts: Interrupts,
) -> int:
    """Run it to its end, or to an interruption; returns the exit code.

    Until the first run is sent an interruption ends the command at once. Then the first is
    obeyed in order, and a second one only stops waiting for the end of what is being cancelled.
    """
    problem = None
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
    for finding in problem.findings if problem else ():
        view.finding(finding)
    view.finish(bench, exit_code)
    if exit_code != ExitCode.INTERRUPTED:
        wait_for_bench_trackers(bench)
    return exit_code


def _stop_asked_for(interrupts: Interrupts, chosen: RunOptions) -> Stop:
    """What the interruptions so far ask for; this is called once the runs are being started."""
    interrupts.follow(_nothing)
    if not interrupts.count:
        return None
    return "cancel" if chosen.cancel_on_interrupt else "leave"


def _nothing() -> None:
    """An interruption is counted, and seen in the next round."""


def _stop_waiting(bench: Bench, chosen: RunOptions, interrupts: Interrupts) -> None:
    """Ask what is to be cancelled to end, and wait no longer."""
    interrupts.hold()
    if chosen.cancel_on_interrupt:
        bench.ask_to_end()


def _show_findings(prepared: PreparedBench, file: JobFile, output: str) -> None:
    show_findings(prepared.findings, file)
    if output == "json":
        print_events([FindingEvent(time=now(), finding=finding) for finding in prepared.findings])


@contextmanager
def _errors_as_events(output: str) -> Iterator[None]:
    """What stops a bench before it begins is printed as events too, the result last."""
    try:
        yield
    except (RsctlError, KeyboardInterrupt) as caught:
        problem = caught if isinstance(caught, RsctlError) else _interrupted()
        if output == "json":
            print_events([FindingEvent(time=now(), finding=f) for f in problem.findings])
            print_result(None, [], int(problem.exit_code))
        raise problem from None


def _interrupted() -> RsctlError:
    finding = note("interrupted", "interrupted: nothing was submitted")
    return RsctlError(ExitCode.CANCELLED, finding)
