"""`rsctl bench run JOB`: the cells of its matrix, each repeated, to their end."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, NamedTuple, Optional

import typer

from rsctl.api import JobFile, Store
from rsctl.bench.cancel import ask_to_end
from rsctl.bench.formats.junit import runs_name
from rsctl.bench.prepare import PreparedBench, prepare
from rsctl.bench.records import Bench, Benches
from rsctl.bench.results import bench_results
from rsctl.bench.run import Stop, run_bench
from rsctl.cli import options
from rsctl.cli.bench_views import BenchView, make_bench_view, print_result
from rsctl.cli.command import OUTPUT, make_command
from rsctl.cli.follow import OUTPUT_LOST, abandon_stdout
from rsctl.cli.gate_views import FIGURES_ALONE, Report, announce, parse_report, write_reports
from rsctl.cli.interrupts import Interrupts
from rsctl.cli.show import print_events, show_findings
from rsctl.cli.tracking import BenchTracking
from rsctl.findings import ExitCode, RsctlError, note
from rsctl.spec.document import Document, read
from rsctl.stream.events import FindingEvent, now

_MOST_REPETITIONS = 1000


@make_command("run")
def command(
    context: typer.Context,
    job: options.Job,
    target: options.Target = None,
    settings: options.Settings = [],
    parallel: Annotated[
        Optional[int],
        typer.Option(
            "--parallel",
            "-p",
            metavar="N",
            min=1,
            help="How many runs at once. Default: 1 on this machine, else the number of cells up "
            "to 20.",
        ),
    ] = None,
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
    new: Annotated[
        bool, typer.Option("--new", help="Measure anew, though there is such a bench already.")
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Let it go on in the background.")
    ] = False,
    cancel_on_interrupt: Annotated[
        Optional[bool],
        typer.Option(
            "--cancel-on-interrupt/--detach-on-interrupt",
            help="What Ctrl-C does to runs that go on. Default: leave them; cancel them if "
            "CI=true.",
        ),
    ] = None,
    reports: Annotated[
        list[Report],
        typer.Option(
            "--report",
            metavar="KIND=FILE",
            parser=parse_report,
            rich_help_panel=OUTPUT,
            help=f"Write a file for a CI system: {', '.join(FIGURES_ALONE)}. Repeatable.",
        ),
    ] = [],
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
        prepared = prepared_here(read(job, settings), settings, target, output)
        store = Store()
        gate = prepared.job.gate
        times = repeat or (gate.repeat if gate else None) or 1
        bench = Benches(store).claim(prepared.new_bench(times), anew=new)
    if detach:
        from rsctl.cli.bench_detach import detach_bench

        return detach_bench(store, bench, parallel, fail_fast, target, output)
    if cancel_on_interrupt is None:
        cancel_on_interrupt = os.environ.get("CI") == "true"
    view = make_bench_view(output, prepared.metric_specs)
    context.call_on_close(view.close)
    how = How(parallel, fail_fast, cancel_on_interrupt)
    interrupts.hold()  # until `drive`, which knows what an interruption ends
    announce(reports, bench.name, [runs_name(cell) for cell in bench.cells], [])
    exit_code = drive(prepared, bench, view, how, interrupts)
    known = Benches(store).get(bench.bench)
    if reports and known is not None:
        write_reports(reports, bench.name, None, bench_results(store, known), False)
    return exit_code


def _require_written_here(context: typer.Context, reports: list[Report], detach: bool) -> None:
    """Fails for a report that this command cannot write."""
    if reports and detach:
        context.fail("--report is written at the end, which --detach does not wait for.")
    if any(report.kind not in FIGURES_ALONE for report in reports):
        context.fail("--report markdown is of a verdict: see rsctl gate, or rsctl compare.")


class How(NamedTuple):
    """The options that say how to run it."""

    parallel: int | None
    fail_fast: bool
    cancel_on_interrupt: bool


def drive(
    prepared: PreparedBench, bench: Bench, view: BenchView, how: How, interrupts: Interrupts
) -> int:
    """Run it to its end, or to an interruption; returns the exit code.

    Until the first run is sent an interruption ends the command at once. Then the first is
    obeyed in order, and a second one only stops waiting for the end of what is being cancelled.
    """
    problem = None
    tracking = BenchTracking(bench.bench, bool(prepared.job.tracking))
    try:
        interrupts.follow(None)
        run_bench(
            prepared,
            bench,
            parallel=how.parallel,
            fail_fast=how.fail_fast,
            observer=view,
            stop=lambda: _wish(interrupts, how),
        )
    except KeyboardInterrupt:
        _obey(bench, how, interrupts)
    except OSError as lost:
        if lost.errno not in OUTPUT_LOST:
            raise
        abandon_stdout()
        _obey(bench, how, interrupts)
        return int(ExitCode.INTERRUPTED)
    except RsctlError as caught:
        problem = caught
    interrupts.hold()
    known = Benches(Store()).get(bench.bench) or bench
    exit_code = int(problem.exit_code if problem else known.exit_code)
    if interrupts.count and not how.cancel_on_interrupt and not known.is_complete:
        exit_code = int(ExitCode.INTERRUPTED)
    for finding in problem.findings if problem else ():
        view.finding(finding)
    view.finish(known, exit_code)
    if exit_code != ExitCode.INTERRUPTED:
        tracking.finish()
    return exit_code


def _wish(interrupts: Interrupts, how: How) -> Stop:
    """What the interruptions so far ask for; this is called once the runs are being started."""
    interrupts.follow(_nothing)
    if not interrupts.count:
        return None
    return "cancel" if how.cancel_on_interrupt else "leave"


def _nothing() -> None:
    """An interruption is counted, and seen in the next round."""


def _obey(bench: Bench, how: How, interrupts: Interrupts) -> None:
    """Nobody waits any longer: what is to be cancelled has at least been asked to end."""
    interrupts.hold()
    if how.cancel_on_interrupt:
        ask_to_end(Store(), bench)


def prepared_here(
    document: Document, settings: Sequence[str], target: str | None, output: str
) -> PreparedBench:
    """The cells, all of which this environment can run; shows what the user should know."""
    prepared = prepare(document, tuple(settings), target)
    lacking = prepared.target.preflight(prepared.cells[0].submission)
    missing = [finding for finding in lacking if finding.is_error]
    if missing:
        raise RsctlError(ExitCode.ENVIRONMENT, *missing)
    findings = [f for f in (*prepared.findings, *lacking) if f.severity != "note"]
    show_findings(findings, JobFile(document))
    if output == "json":
        print_events([FindingEvent(time=now(), finding=finding) for finding in findings])
    return prepared


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
