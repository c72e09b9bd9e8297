"""`rsctl gate calibrate BENCH|JOB`: the noise of a job, and the regression its gate may allow."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from rsctl.api import MetricNoise, calibrate, write_floors
from rsctl.api.gate_candidate import REPEAT
from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.gate_run import BenchRunner, open_source
from rsctl.cli.output import without_reader
from rsctl.cli.show import print_json, print_message
from rsctl.findings import ExitCode, RsctlError, error


@make_command("calibrate")
def command(
    bench: Annotated[
        str,
        typer.Argument(
            metavar="BENCH|JOB",
            help="A bench's ID, a unique prefix of it, or @last; or a job file.",
        ),
    ],
    target: options.Target = None,
    settings: options.Settings = [],
    runs: Annotated[
        int,
        typer.Option(
            "--runs",
            "-n",
            metavar="N",
            min=3,
            max=1000,
            help="Number of identical runs of each cell of JOB.",
        ),
    ] = 10,
    repeat: Annotated[
        Optional[int],
        typer.Option(
            "--repeat",
            "-r",
            metavar="N",
            min=3,
            max=1000,
            help="Number of runs on each side of the planned gate. Default: gate.repeat of the "
            f"job, otherwise {REPEAT}.",
        ),
    ] = None,
    metrics: options.MetricNames = [],
    parallel: options.Parallel = None,
    write: Annotated[
        bool,
        typer.Option(
            "--write", help="Write the allowed regressions into the job file's gate block."
        ),
    ] = False,
    output: options.Output = "text",
) -> int:
    """Measure the noise of a job, and derive the regression its gate may allow.

    With this limit an unchanged program passes in 90 % of cases; the fewer the runs, the larger the
    limit.

    Exit code: 0, or 8 if the noise of a metric cannot be measured.
    """
    candidate = open_source(bench, target, settings)
    rules = candidate.rules()
    results = candidate.measure(runs, BenchRunner(parallel))
    names = metrics or list(rules.floors)
    calibrated = calibrate(results, metrics=names, repeat=repeat or rules.repeat or REPEAT)
    floors = {metric.metric: metric.allowed for metric in calibrated if metric.allowed is not None}
    if output == "json":
        print_json({"bench": results.label, "metrics": calibrated})
    else:
        _print(calibrated, floors)
    if write and floors:
        if candidate.file is None:
            finding = error(
                "gate", "--write needs a job file", "give the path of the file instead of -"
            )
            raise RsctlError(ExitCode.USAGE, finding)
        write_floors(candidate.file, floors)
        print_message(f"wrote gate.max_regression to {candidate.file}")
    return int(ExitCode.SUCCEEDED if len(floors) == len(calibrated) > 0 else ExitCode.INCONCLUSIVE)


@without_reader()
def _print(found: list[MetricNoise], floors: dict[str, str]) -> None:
    for metric in found:
        if metric.floor is None or metric.noise is None or metric.measured is None:
            print_message(f"{metric.metric}: {metric.reason}")
            continue
        print_message(
            f"{metric.metric}: noise {100 * metric.noise:.2g} % of a run ({metric.runs} runs per "
            f"cell); with {metric.repeat}+{metric.repeat} runs an unchanged program passes at "
            f"{100 * metric.measured:g} % in 90 % of cases, if these runs are typical; "
            f"{metric.allowed} allows for their small number"
        )
    if not found:
        print_message("no metric has a goal: set metrics.NAME.goal to max or min")
    if floors:
        typer.echo("gate:\n  max_regression:")
        for name, floor in floors.items():
            typer.echo(f"    {name}: {floor}")
