"""`rsctl gate BENCH` and `rsctl gate JOB`: run the remaining cells, compare, decide."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Optional

import typer

from rsctl.api import (
    CI_REPORTS,
    Candidate,
    CiReport,
    Gate,
    GateRecorder,
    GateRules,
    PreparedGate,
    Results,
    is_paired,
    prepare_gate_of,
    prepare_pairs,
    recorded_only,
    write_baseline,
    write_reports,
)
from rsctl.api.gate_settings import WINDOW, require_writable
from rsctl.cli import options
from rsctl.cli.bench_run import errors_in_junit
from rsctl.cli.command import ParentCommand, make_command
from rsctl.cli.errors import keep_verdict
from rsctl.cli.gate_history import print_renewal, record_only, record_results
from rsctl.cli.gate_run import BenchRunner, open_source
from rsctl.cli.runs import show_outdated
from rsctl.cli.show import print_message, show_findings
from rsctl.cli.tracking import show_missing_messages
from rsctl.cli.views.gate import annotate_github, exit_code, print_gate
from rsctl.findings import ExitCode

_DECISION = "Decision"
_EPILOG = "rsctl gate calibrate BENCH|JOB: measure the noise, and derive the allowed regression."

_Source = Annotated[
    str,
    typer.Argument(
        metavar="BENCH|JOB",
        help="A bench's ID, a unique prefix of it, or @last; or a job file, whose remaining cells "
        "are run first.",
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
_Against = Annotated[
    Optional[str],
    typer.Option(
        "--against",
        "-a",
        metavar="REF|JOB",
        rich_help_panel=_DECISION,
        help="Run a git ref or another job file in turn with JOB, and compare their pairs. The "
        "working tree is the candidate.",
    ),
]
_MaxRegression = Annotated[
    list[str],
    typer.Option(
        "--max-regression",
        metavar="METRIC=5%",
        rich_help_panel=_DECISION,
        help="The allowed regression of a metric: a percentage, or an amount in its unit; of some "
        "cells: METRIC[KEY=VALUE]=8%. curve.METRIC is its whole curve. Repeatable.",
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
_Looks = Annotated[
    Optional[int],
    typer.Option(
        "--looks",
        metavar="N",
        min=1,
        max=1000,
        rich_help_panel=_DECISION,
        help="The gate decides N times about one baseline, such as in a loop: all N decisions "
        "together have the error bound of one.",
    ),
]
_AllowInconclusive = Annotated[
    bool,
    typer.Option(
        "--allow-inconclusive",
        rich_help_panel=_DECISION,
        help="Exit with 0 if the result is inconclusive; not if a run failed or diverged, or the "
        "baseline does not match.",
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
_History = Annotated[
    Optional[str],
    typer.Option(
        "--history",
        metavar="WHERE",
        rich_help_panel=_DECISION,
        help="A history: its last commits are the baseline, or limit --baseline. Default: the job "
        "file's gate.history.",
    ),
]
_Window = Annotated[
    Optional[int],
    typer.Option(
        "--window",
        metavar="N",
        min=1,
        max=1000,
        rich_help_panel=_DECISION,
        help=f"Number of commits of the history, at most since its last step. Default: {WINDOW}.",
    ),
]
_Record = Annotated[
    Optional[str],
    typer.Option(
        "--record",
        metavar="WHERE",
        rich_help_panel=_DECISION,
        help="Append the samples to this history, with any verdict.",
    ),
]
_FailOnImprovement = Annotated[
    bool,
    typer.Option(
        "--fail-on-improvement",
        rich_help_panel=_DECISION,
        help="Exit with 7 if a metric is better than the baseline by more than it may be worse.",
    ),
]
_Reports = Annotated[list[CiReport], options.report_option(CI_REPORTS)]


class _Gate(ParentCommand):
    words = ("calibrate",)


@make_command("gate", cls=_Gate, epilog=_EPILOG)
def command(
    context: typer.Context,
    bench: _Source,
    target: options.Target = None,
    settings: options.Settings = [],
    repeat: _Repeat = None,
    parallel: options.Parallel = None,
    new: options.New = False,
    pack: options.Pack = None,
    baseline: _Baseline = None,
    against: _Against = None,
    max_regression: _MaxRegression = [],
    confirm_by: _Confirm = None,
    looks: _Looks = None,
    allow_inconclusive: _AllowInconclusive = False,
    update_baseline: _UpdateBaseline = False,
    history: _History = None,
    window: _Window = None,
    record: _Record = None,
    fail_on_improvement: _FailOnImprovement = False,
    rehearse: options.Rehearse = False,
    rehearse_with: options.RehearseWith = "auto",
    behaviour: options.Behaviour = [],
    reports: _Reports = [],
    output: options.Output = "text",
) -> int:
    """Compare a benchmark job with its baseline, and pass or fail.

    A gate with --rehearse judges runs on this machine, which says nothing about the cloud.

    Exit code: 0 pass, 7 regressed, 8 inconclusive or no data; if all runs of a cell failed, the
    exit code of `bench run`.
    """
    if against is not None and update_baseline:
        context.fail("--update-baseline writes a file, and --against has none")
    if against is not None and (history is not None or fail_on_improvement):
        context.fail("--history and --fail-on-improvement need a stored baseline, not --against")
    options.require_rehearsal(context, rehearse, rehearse_with, behaviour)
    if rehearse and against is None:
        context.fail("--rehearse needs --against: a rehearsal has no baseline but its other side")
    if rehearse and record is not None:
        context.fail("--record keeps measurements of the cloud, and --rehearse makes none")
    rehearsal = options.chosen_rehearsal(rehearse, rehearse_with, behaviour)
    settings = options.with_pack(settings, pack)
    with errors_in_junit(reports, bench, [{}]):
        candidate = open_source(bench, target, settings, new, rehearsal)
        rules = candidate.rules(
            baseline, max_regression, repeat, confirm_by, history, window, looks
        )
    paired = not update_baseline and is_paired(candidate, baseline, against, history)
    if paired and fail_on_improvement:
        context.fail(
            f"--fail-on-improvement needs a stored baseline, and {bench} ran in turn with its "
            "own: give --baseline or --history"
        )
    recorder = GateRecorder(candidate, record)
    checks = list(rules.floors) or ["gate"]
    with errors_in_junit(reports, candidate.name, candidate.cells, checks):
        run = BenchRunner(parallel, reports)
        if update_baseline:
            results = _update(candidate, rules, run, recorder)
            write_reports(reports, candidate.name, results)
            return int(ExitCode.SUCCEEDED)
        if paired:
            gate, results = _judge_pairs(candidate, rules, against, target, run)
            shown = [partial(print_gate, gate, output)]
        else:
            known = recorder.rules_at_first(rules)
            if known is None:
                results = record_only(recorder, rules, run)
                files = [partial(write_reports, [r], candidate.name, results) for r in reports]
                recording = partial(record_results, recorder, results)
                return keep_verdict(int(recorded_only(results)), recording, *files)
            own = recorder.commit
            prepared = prepare_gate_of(candidate, known, commit=own, on_outdated=show_outdated)
            if recorder.location is None:  # samples of new conditions begin a series of a history
                prepared.require_comparable(must_be_whole=not allow_inconclusive)
            gate, results = _judge(prepared, run)
            gate = prepared.conclude(gate, results, fail_on_improvement)
            shown = [partial(print_gate, gate, output), partial(print_renewal, gate, prepared)]
    write = partial(write_reports, allow_inconclusive=allow_inconclusive)
    shown += [partial(write, [report], candidate.name, results, gate) for report in reports]
    code = exit_code(gate, allow_inconclusive and not (fail_on_improvement and gate.outdated))
    shown.append(partial(annotate_github, gate, candidate.file, has_passed=code == 0))
    if gate.verdict == "regressed" and candidate.record.spec.get("notify"):
        shown.append(partial(show_missing_messages, gate.candidate))
    shown.append(partial(record_results, recorder, results))
    return keep_verdict(code, *shown)


def _judge(prepared: PreparedGate, run: BenchRunner) -> tuple[Gate, Results]:
    """The gate of a candidate and a baseline that was measured before."""
    for remark in prepared.remarks():
        print_message(remark)
    results = prepared.measure(run)
    if prepared.is_of(results):
        print_message(f"the baseline is {results.label} itself, so there is nothing to compare")
    gate = prepared.decide(results)
    if prepared.must_confirm(gate):
        _announce_confirmation(gate, prepared.rules)
        gate = prepared.confirm(gate, results, run)
    return gate, results


def _judge_pairs(
    candidate: Candidate,
    rules: GateRules,
    against: str | None,
    target: str | None,
    run: BenchRunner,
) -> tuple[Gate, Results]:
    """The gate of a candidate and a baseline that run in turn."""
    prepared = prepare_pairs(candidate, rules, against, target)
    if prepared.prepared is not None and candidate.prepared is not None:
        known = candidate.prepared.findings
        show_findings([f for f in prepared.prepared.findings if f not in known])
    for remark in prepared.remarks():
        print_message(remark)
    results = prepared.measure(run)
    gate = prepared.decide(results)
    if prepared.must_confirm(gate):
        _announce_confirmation(gate, rules)
        gate = prepared.confirm(gate, results, run)
    return prepared.conclude(gate), results.candidate


def _announce_confirmation(gate: Gate, rules: GateRules) -> None:
    times = f"{rules.confirm} times" if rules.confirm > 1 else "once"
    suspects = ", ".join(check.title for check in gate.suspects)
    print_message(f"suspected regression: {suspects}; running {times} again")


def _update(
    candidate: Candidate, rules: GateRules, run: BenchRunner, recorder: GateRecorder
) -> Results:
    """Write the baseline from the current results."""
    location = require_writable(rules.baseline)
    folder = candidate.folder if rules.is_from_file else "."
    results = candidate.measure(rules.repeat, run)
    made = write_baseline(results, location, required=rules.floors, folder=folder)
    cells = "1 cell" if len(results.cells) == 1 else f"{len(results.cells)} cells"
    print_message(f"{made.location}: {cells}, {made.runs} runs each, from {results.label}")
    record_results(recorder, results)
    if made.runs < 3:
        print_message("fewer than 3 runs per cell cannot show a difference: start with --repeat 5")
    return results
