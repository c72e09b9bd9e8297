"""`rsctl gate BENCH` and `rsctl gate JOB`: run what is to be run, compare, decide."""

from __future__ import annotations

from typing import Annotated, Any, Optional

import typer
from typer.main import get_command

from rsctl.api import Store
from rsctl.bench.baseline import make_baseline, write_baseline
from rsctl.bench.baseline_files import is_location
from rsctl.bench.forecast import forecast, format_cost
from rsctl.bench.formats.junit import runs_name
from rsctl.bench.gate import Gate, confirm, evaluate
from rsctl.bench.results import Results
from rsctl.bench.rules import Rules, rules_of
from rsctl.cli import options
from rsctl.cli.command import OUTPUT, Command, make_command
from rsctl.cli.compare import load
from rsctl.cli.gate_run import How, Source, open_source
from rsctl.cli.gate_views import (
    REPORTS,
    Report,
    annotate_github,
    announce,
    exit_code,
    parse_report,
    print_gate,
    write_reports,
)
from rsctl.cli.show import print_message
from rsctl.findings import ExitCode, RsctlError, error

_DECISION = "Decision"
_EPILOG = "rsctl gate calibrate BENCH|JOB: measure the noise, and what may be allowed."


class _Gate(Command):
    """`rsctl gate calibrate` is a command of its own."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: Any = None,
        **extra: Any,
    ) -> Any:
        if args[:1] != ["calibrate"]:
            return super().make_context(info_name, args, parent, **extra)
        from rsctl.cli.gate_calibrate import command as calibrate

        command = get_command(calibrate)
        return command.make_context(f"{info_name} calibrate", args[1:], parent, **extra)


@make_command("gate", cls=_Gate, epilog=_EPILOG)
@options.errors_as_json
def command(
    context: typer.Context,
    bench: Annotated[
        str,
        typer.Argument(
            metavar="BENCH|JOB",
            help="A bench's id, a unique prefix or @last; or a job file, which is run first as far "
            "as it has not been run.",
        ),
    ],
    target: options.Target = None,
    settings: options.Settings = [],
    repeat: Annotated[
        Optional[int],
        typer.Option(
            "--repeat",
            "-r",
            metavar="N",
            min=1,
            max=1000,
            help="How often each cell of JOB is run.",
        ),
    ] = None,
    parallel: Annotated[
        Optional[int],
        typer.Option("--parallel", "-p", metavar="N", min=1, help="How many runs of JOB at once."),
    ] = None,
    new: Annotated[
        bool,
        typer.Option("--new", help="Measure JOB anew, though it has been measured already."),
    ] = False,
    baseline: Annotated[
        Optional[str],
        typer.Option(
            "--baseline",
            "-b",
            metavar="LOCATION",
            rich_help_panel=_DECISION,
            help="FILE, gs://…, s3://…, git:REF:PATH or a bench. Default: the job file's "
            "gate.baseline.",
        ),
    ] = None,
    max_regression: Annotated[
        list[str],
        typer.Option(
            "--max-regression",
            metavar="METRIC=5%",
            rich_help_panel=_DECISION,
            help="How much worse a metric may be: a percentage, or an amount in its unit. "
            "Repeatable.",
        ),
    ] = [],
    confirm_by: Annotated[
        Optional[int],
        typer.Option(
            "--confirm",
            metavar="N",
            min=0,
            max=1000,
            rich_help_panel=_DECISION,
            help="Run a suspected regression N times again, on fresh machines, before failing.",
        ),
    ] = None,
    allow_inconclusive: Annotated[
        bool,
        typer.Option(
            "--allow-inconclusive",
            rich_help_panel=_DECISION,
            help="Exit with 0 where there is no verdict, but not for a baseline of something else.",
        ),
    ] = False,
    update_baseline: Annotated[
        bool,
        typer.Option(
            "--update-baseline",
            rich_help_panel=_DECISION,
            help="Write the baseline instead of deciding.",
        ),
    ] = False,
    reports: Annotated[
        list[Report],
        typer.Option(
            "--report",
            metavar="KIND=FILE",
            parser=parse_report,
            rich_help_panel=OUTPUT,
            help=f"Write a file for a CI system: {', '.join(REPORTS)}. Repeatable.",
        ),
    ] = [],
    output: options.Output = "text",
) -> int:
    """Decide a benchmark job against its baseline.

    Exit code: 0 pass, 7 regressed, 8 inconclusive or no data.
    """
    store = Store()
    source = open_source(context, store, bench, settings, target, How(parallel, new))
    rules = rules_of(source.gate, baseline, max_regression, repeat, confirm_by)
    name = source.name
    cells = [runs_name(cell) for cell in source.cells]
    announce(reports, name, cells, list(rules.floors) or ["gate"])
    if update_baseline:
        return _update(store, source, rules)
    known = _baseline(store, rules, source)
    _say_forecast(source, rules, known)
    candidate = source.measure(store, rules.repeat)
    if candidate.label in (known.label, known.of):
        print_message(f"the baseline is of {candidate.label} itself: nothing can differ")
    gate = evaluate(known, candidate, rules.floors)
    if rules.confirm and gate.suspects:
        gate, candidate = _confirmed(store, source, rules, gate, known, candidate)
    print_gate(gate, output)
    write_reports(reports, name, gate, candidate, allow_inconclusive)
    annotate_github(gate, source.file)
    return exit_code(gate, allow_inconclusive)


def _baseline(store: Store, rules: Rules, source: Source) -> Results:
    if rules.baseline is None:
        remedy = "give --baseline, or gate.baseline in the job file; --update-baseline makes one"
        finding = error("baseline", "there is no baseline to compare with", remedy)
        raise RsctlError(ExitCode.USAGE, finding)
    if not rules.floors:
        remedy = "give --max-regression METRIC=5%, or gate.max_regression in the job file"
        finding = error("gate", "no metric is named to be judged", remedy)
        raise RsctlError(ExitCode.USAGE, finding)
    known = load(store, rules.baseline, source.folder if rules.is_from_file else ".")
    source.require_goals(rules.floors, known)
    return known


def _say_forecast(source: Source, rules: Rules, known: Results) -> None:
    """Before anything runs: what the repetitions can detect, and what they cost."""
    repeat = source.repeat(rules.repeat)
    for metric in forecast(known, rules.floors, source.cells, repeat, rules.confirm):
        print_message(metric.in_words())
    if source.will_run:
        print_message(format_cost(known, source.cells, repeat))


def _confirmed(
    store: Store,
    source: Source,
    rules: Rules,
    gate: Gate,
    known: Results,
    candidate: Results,
) -> tuple[Gate, Results]:
    """The verdict after fresh runs of the cells that are suspected."""
    cells = [check.cell for check in gate.suspects if check.cell is not None]
    if any(check.cell is None for check in gate.suspects):
        cells = [runs.cell for runs in candidate.cells]
    times = f"{rules.confirm} times" if rules.confirm > 1 else "once"
    print_message(
        f"suspected: {', '.join(check.title for check in gate.suspects)}; run {times} again"
    )
    fresh = source.again(store, cells, rules.confirm)
    return confirm(gate, known, candidate, fresh, rules.floors), candidate


def _update(store: Store, source: Source, rules: Rules) -> int:
    """Write the baseline of what is measured now."""
    location = rules.baseline
    if location is None or not (is_location(location) or location.endswith(".json")):
        remedy = "give --baseline FILE.json, gs://… or s3://…"
        raise RsctlError(ExitCode.USAGE, error("baseline", "nowhere to write it to", remedy))
    folder = source.folder if rules.is_from_file else "."
    candidate = source.measure(store, rules.repeat)
    made = make_baseline(candidate, list(rules.floors))
    written = write_baseline(made, location, folder)
    runs = min((len(m.values) for m in made.metrics), default=0)
    cells = "cell" if len(candidate.cells) == 1 else "cells"
    print_message(
        f"{written}: {len(candidate.cells)} {cells}, {runs} runs each, of {candidate.label}"
    )
    if runs < 3:
        print_message("fewer than 3 runs a cell can show nothing: --repeat 5 is a good beginning")
    return int(ExitCode.SUCCEEDED)
