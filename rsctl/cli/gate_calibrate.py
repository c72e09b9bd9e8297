"""`rsctl gate calibrate BENCH|JOB`: how noisy a job is, and what its gate may allow."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from rsctl.api import Calibration, calibrate, write_floors
from rsctl.api.gate_candidate import REPEAT
from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.gate_run import Runner, open_source
from rsctl.cli.show import print_json, print_message
from rsctl.findings import ExitCode, RsctlError, error


@make_command("calibrate")
@options.errors_as_json
def command(
    bench: Annotated[
        str,
        typer.Argument(
            metavar="BENCH|JOB", help="A bench's id, a unique prefix or @last; or a job file."
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
            help="Identical runs of each cell of JOB.",
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
            help="Runs a side of the gate that it is for. Default: gate.repeat of the job, else "
            f"{REPEAT}.",
        ),
    ] = None,
    metrics: options.MetricNames = [],
    parallel: options.Parallel = None,
    write: Annotated[
        bool, typer.Option("--write", help="Write the floors into the job file's gate block.")
    ] = False,
    output: options.Output = "text",
) -> int:
    """Measure the noise of a job, and which regression its gate may allow.

    That is one at which an unchanged program passes in 90 % of cases, larger the fewer the runs.

    Exit code: 0, or 8 if a metric's noise cannot be known.
    """
    candidate = open_source(bench, target, settings)
    rules = candidate.rules()
    results = candidate.measure(runs, Runner(parallel))
    wanted = metrics or list(rules.floors)
    found = calibrate(results, metrics=wanted, repeat=repeat or rules.repeat or REPEAT)
    floors = {metric.metric: metric.allowed for metric in found if metric.allowed is not None}
    if output == "json":
        print_json({"bench": results.label, "metrics": found})
    else:
        _print(found, floors)
    if write and floors:
        if candidate.file is None:
            finding = error("gate", "there is no job file to write to", "give the file, not -")
            raise RsctlError(ExitCode.USAGE, finding)
        write_floors(candidate.file, floors)
        print_message(f"{candidate.file}: gate.max_regression is written")
    return int(ExitCode.SUCCEEDED if len(floors) == len(found) > 0 else ExitCode.INCONCLUSIVE)


def _print(found: list[Calibration], floors: dict[str, str]) -> None:
    for metric in found:
        if metric.floor is None or metric.noise is None or metric.measured is None:
            print_message(f"{metric.metric}: {metric.reason}")
            continue
        print_message(
            f"{metric.metric}: noise {100 * metric.noise:.2g} % of a run ({metric.runs} runs a "
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
