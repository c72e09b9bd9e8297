"""`rsctl gate BENCH` and `rsctl gate JOB`: run the remaining cells, compare, decide."""

from __future__ import annotations

from typing import Annotated, Any, Optional

import typer
from typer.main import get_command

from rsctl.api import (
    CI_REPORTS,
    Candidate,
    CiReport,
    Gate,
    GateRules,
    PreparedGate,
    Results,
    announce_reports,
    prepare_gate,
    write_baseline,
    write_reports,
)
from rsctl.api.gate_settings import require_writable
from rsctl.cli import options
from rsctl.cli.command import Command, make_command
from rsctl.cli.gate_run import BenchRunner, open_source
from rsctl.cli.runs import show_outdated
from rsctl.cli.show import print_message
from rsctl.cli.views.gate import annotate_github, exit_code, print_gate
from rsctl.findings import ExitCode

_DECISION = "Decision"
_EPILOG = "rsctl gate calibrate BENCH|JOB: measure the noise, and derive the allowed regression."

_Source = Annotated[
    str,
    typer.Argument(
        metavar="BENCH|JOB",
        help=(
            "A bench's ID, a unique prefix of it, or @last; or a job file, whose remaining "
            "cells are run first."
        ),
    ),
]
_Repeat = Annotated[
    Optional[int],
    typer.Option(
        "--repeat",
        "-r",
        metavar="N",
        min=1,
        max=1000,
        help="Number of runs of each cell of JOB.",
    ),
]
_Baseline = Annotated[
    Optional[str],
    typer.Option(
        "--baseline",
        "-b",
        metavar="LOCATION",
        rich_help_panel=_DECISION,
        help="FILE, gs://…, s3://…, git:REF:PATH or a bench. Default: the job file's "
        "gate.baseline.",
    ),
]
_MaxRegression = Annotated[
    list[str],
    typer.Option(
        "--max-regression",
        metavar="METRIC=5%",
        rich_help_panel=_DECISION,
        help=(
            "The allowed regression of a metric: a percentage, or an amount in its unit. "
            "Repeatable."
        ),
    ),
]
_Confirm = Annotated[
    Optional[int],
    typer.Option(
        "--confirm",
        metavar="N",
        min=0,
        max=1000,
        rich_help_panel=_DECISION,
        help="Before failing, repeat a suspected regression N times on fresh machines.",
    ),
]
_AllowInconclusive = Annotated[
    bool,
    typer.Option(
        "--allow-inconclusive",
        rich_help_panel=_DECISION,
        help=(
            "Exit with 0 if the result is inconclusive; not if a run failed or the baseline "
            "does not match."
        ),
    ),
]
_UpdateBaseline = Annotated[
    bool,
    typer.Option(
        "--update-baseline",
        rich_help_panel=_DECISION,
        help="Write the baseline instead of comparing with it.",
    ),
]
_Reports = Annotated[list[CiReport], options.report_option(CI_REPORTS)]


class _Gate(Command):
    """The group of `rsctl gate`, of which `calibrate` is a separate command."""

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
    bench: _Source,
    target: options.Target = None,
    settings: options.Settings = [],
    repeat: _Repeat = None,
    parallel: options.Parallel = None,
    new: options.Anew = False,
    baseline: _Baseline = None,
    max_regression: _MaxRegression = [],
    confirm_by: _Confirm = None,
    allow_inconclusive: _AllowInconclusive = False,
    update_baseline: _UpdateBaseline = False,
    reports: _Reports = [],
    output: options.Output = "text",
) -> int:
    """Compare a benchmark job with its baseline, and pass or fail.

    Exit code: 0 pass, 7 regressed, 8 inconclusive or no data; if all runs of a cell failed, the
    exit code of `bench run`.
    """
    candidate = open_source(bench, target, settings, new)
    rules = candidate.rules(baseline, max_regression, repeat, confirm_by)
    announce_reports(reports, candidate.name, candidate.cells, list(rules.floors) or ["gate"])
    run = BenchRunner(parallel)
    if update_baseline:
        return _update(candidate, rules, run)

    prepared = prepare_gate(candidate, rules, on_outdated=show_outdated)
    for remark in prepared.remarks():
        print_message(remark)
    results = prepared.measure(run)
    gate = _decide(prepared, results, run)

    print_gate(gate, output)
    write_reports(reports, candidate.name, results, gate, allow_inconclusive=allow_inconclusive)
    annotate_github(gate, candidate.file)
    return exit_code(gate, allow_inconclusive)


def _decide(prepared: PreparedGate, results: Results, run: BenchRunner) -> Gate:
    if results.label in (prepared.baseline.label, prepared.baseline.of):
        print_message(f"the baseline is {results.label} itself, so there is nothing to compare")
    gate = prepared.decide(results)
    if not prepared.must_confirm(gate):
        return gate
    times = f"{prepared.rules.confirm} times" if prepared.rules.confirm > 1 else "once"
    suspects = ", ".join(check.title for check in gate.suspects)
    print_message(f"suspected regression: {suspects}; running {times} again")
    return prepared.confirm(gate, results, run)


def _update(candidate: Candidate, rules: GateRules, run: BenchRunner) -> int:
    """Write the baseline from the current results."""
    location = require_writable(rules.baseline)
    folder = candidate.folder if rules.is_from_file else "."
    results = candidate.measure(rules.repeat, run)
    made = write_baseline(results, location, required=rules.floors, folder=folder)
    cells = "1 cell" if len(results.cells) == 1 else f"{len(results.cells)} cells"
    print_message(f"{made.location}: {cells}, {made.runs} runs each, from {results.label}")
    if made.runs < 3:
        print_message("fewer than 3 runs per cell cannot show a difference: start with --repeat 5")
    return int(ExitCode.SUCCEEDED)
