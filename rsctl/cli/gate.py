"""`rsctl gate BENCH` and `rsctl gate JOB`: run what is to be run, compare, decide."""

from __future__ import annotations

from typing import Any

import click

from rsctl.bench.baseline import make_baseline, write_baseline
from rsctl.bench.baseline_files import is_location
from rsctl.bench.forecast import forecast, format_cost
from rsctl.bench.formats.junit import runs_name
from rsctl.bench.gate import Gate, confirm, evaluate
from rsctl.bench.results import Results
from rsctl.bench.rules import Rules, rules_of
from rsctl.cli import options
from rsctl.cli.compare import load
from rsctl.cli.gate_run import How, Source, open_source
from rsctl.cli.gate_views import (
    REPORTS,
    Report,
    announce,
    exit_code,
    parse_reports,
    print_gate,
    tell_github,
    write_reports,
)
from rsctl.cli.show import say
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs.store import Store


class _Gate(click.Command):
    """`rsctl gate calibrate` is a command of its own."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        if args[:1] != ["calibrate"]:
            return super().make_context(info_name, args, parent, **extra)
        from rsctl.cli.gate_calibrate import command as calibrate

        return calibrate.make_context(f"{info_name} calibrate", args[1:], parent, **extra)


@click.command(
    "gate",
    cls=_Gate,
    help="Decide a benchmark job against its baseline: pass (exit code 0), regressed (7), "
    "inconclusive or no data (8).\n\nBENCH is an id, a unique prefix or @last; a job file is run "
    "first, as far as it has not been run.",
    epilog="rsctl gate calibrate BENCH|JOB: measure the noise, and what may be allowed.",
)
@click.argument("bench", metavar="BENCH|JOB")
@options.job_options
@click.option(
    "--baseline",
    "-b",
    metavar="PLACE",
    help="FILE, gs://…, s3://…, git:REF:PATH or a bench. Default: the job file's gate.baseline.",
)
@click.option(
    "--max-regression",
    metavar="METRIC=5%",
    multiple=True,
    help="How much worse a metric may be: a percentage, or an amount in its unit. Repeatable.",
)
@click.option("--repeat", "-r", type=click.IntRange(1, 1000), help="Run each cell of JOB so often.")
@click.option(
    "--confirm",
    "confirm_by",
    type=click.IntRange(0, 1000),
    metavar="N",
    help="Run a suspected regression N times again, on fresh machines, before failing.",
)
@click.option(
    "--allow-inconclusive",
    is_flag=True,
    help="Exit with 0 where the gate cannot tell, but not for a baseline of something else.",
)
@click.option("--update-baseline", is_flag=True, help="Write the baseline instead of deciding.")
@click.option(
    "--report",
    "reports",
    metavar="KIND=FILE",
    multiple=True,
    callback=parse_reports,
    help=f"Write a file for a CI system: {', '.join(REPORTS)}. Repeatable.",
)
@click.option("--parallel", "-p", type=click.IntRange(min=1), help="So many runs of JOB at once.")
@click.option("--new", is_flag=True, help="Measure JOB anew, though it has been measured already.")
@options.output_option
@options.talk_options
def command(
    bench: str,
    target: str | None,
    settings: tuple[str, ...],
    baseline: str | None,
    max_regression: tuple[str, ...],
    repeat: int | None,
    confirm_by: int | None,
    allow_inconclusive: bool,
    update_baseline: bool,
    reports: list[Report],
    parallel: int | None,
    new: bool,
    output: str,
) -> int:
    """Exit with 0 (pass), 7 (regressed) or 8 (inconclusive, no data)."""
    store = Store()
    source = open_source(store, bench, settings, target, How(parallel, new))
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
        say(f"the baseline is of {candidate.label} itself: nothing can differ")
    gate = evaluate(known, candidate, rules.floors)
    if rules.confirm and gate.suspects:
        gate, candidate = _confirmed(store, source, rules, gate, known, candidate)
    print_gate(gate, output)
    write_reports(reports, name, gate, candidate, allow_inconclusive)
    tell_github(gate, source.file)
    return exit_code(gate, allow_inconclusive)


def _baseline(store: Store, rules: Rules, source: Source) -> Results:
    if rules.baseline is None:
        remedy = "give --baseline, or gate.baseline in the job file; --update-baseline makes one"
        finding = error("baseline", "there is no baseline to compare with", remedy)
        raise RsctlError(ExitCode.USAGE, finding)
    if not rules.floors:
        remedy = "give --max-regression METRIC=5%, or gate.max_regression in the job file"
        finding = error("gate", "nothing says which metrics are to be judged", remedy)
        raise RsctlError(ExitCode.USAGE, finding)
    known = load(store, rules.baseline, source.folder if rules.is_from_file else ".")
    source.require_goals(rules.floors, known)
    return known


def _say_forecast(source: Source, rules: Rules, known: Results) -> None:
    """Before anything runs: what the repetitions can detect, and what they cost."""
    repeat = source.repeat(rules.repeat)
    for metric in forecast(known, rules.floors, source.cells, repeat, rules.confirm):
        say(metric.in_words())
    if source.will_run:
        say(format_cost(known, source.cells, repeat))


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
    say(f"suspected: {', '.join(check.title for check in gate.suspects)}; run {times} again")
    fresh = source.again(store, cells, rules.confirm)
    return confirm(gate, known, candidate, fresh, rules.floors), candidate


def _update(store: Store, source: Source, rules: Rules) -> int:
    """Write the baseline of what is measured now."""
    place = rules.baseline
    if place is None or not (is_location(place) or place.endswith(".json")):
        remedy = "give --baseline FILE.json, gs://… or s3://…"
        raise RsctlError(ExitCode.USAGE, error("baseline", "nowhere to write it to", remedy))
    folder = source.folder if rules.is_from_file else "."
    candidate = source.measure(store, rules.repeat)
    made = make_baseline(candidate, list(rules.floors))
    written = write_baseline(made, place, folder)
    runs = min((len(m.values) for m in made.metrics), default=0)
    cells = "cell" if len(candidate.cells) == 1 else "cells"
    say(f"{written}: {len(candidate.cells)} {cells}, {runs} runs each, of {candidate.label}")
    if runs < 3:
        say("fewer than 3 runs a cell can show nothing: --repeat 5 is a good beginning")
    return int(ExitCode.SUCCEEDED)
