"""`rsctl advise JOB`: the topology, the number of reducers, and the cost."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Optional

import typer

from rsctl.api import (
    Advice,
    Communication,
    JobFile,
    advise,
    advise_sweep,
    calibrate_from,
    communication,
    load,
    write_recommendation,
)
from rsctl.api.advice import advice_json
from rsctl.cli import options
from rsctl.cli.advise_measure import measure_script
from rsctl.cli.command import make_command
from rsctl.cli.interrupts import Interrupts
from rsctl.cli.show import print_json, print_message
from rsctl.cli.views.advice import print_advice, print_communication, print_sweep, sweep_json
from rsctl.cli.views.advice_charts import advice_chart, plot_lines, sweep_chart
from rsctl.cli.views.calibration import print_fitted
from rsctl.estimate.advice.profile import Profile
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.results.report.charts import LineChart

_RANGE = re.compile(r"([0-9]{1,7})\.\.([0-9]{1,7})")
_MOST_VALUES = 32
_Known = tuple[Optional[str], Optional[Profile]]
"""The run and the measurement that describe a step in place of the job file."""


def _parse_sweep(text: str) -> tuple[str, list[object]]:
    """`KEY=2..32` or `KEY=2,4,8` as the key and its values. Raises typer.BadParameter."""
    key, _, given = text.partition("=")
    values: list[object] = [int(v) if v.isdecimal() else v for v in given.split(",")]
    if match := _RANGE.fullmatch(given):
        low, high = int(match[1]), int(match[2])
        if low > high:
            raise typer.BadParameter(
                f"the lower end of the range in {given} is above its upper end: write "
                f"{key}={high}..{low}."
            )
        step = max(1, -(-(high - low + 1) // _MOST_VALUES))
        values = list(range(low, high + 1, step))
    if not key or not values or "" in values or len(values) > _MOST_VALUES:
        raise typer.BadParameter(
            f"{text!r} is not in the form KEY=LOW..HIGH or KEY=VALUE,VALUE with at most "
            f"{_MOST_VALUES} values"
        )
    return key, values


@make_command("advise")
@options.errors_as_json
def command(
    context: typer.Context,
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="JOB", help="A job file; - is standard input. With --calibrate: finished runs."
        ),
    ],
    target: options.Target = None,
    settings: options.Settings = [],
    run: Annotated[
        Optional[str],
        typer.Option(
            "--run", metavar="RUN", help="Take the step from this run instead of from `model`."
        ),
    ] = None,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure",
            help="First run a few steps of the script on this machine, without communication.",
        ),
    ] = False,
    measure_on: Annotated[
        Optional[str],
        typer.Option(
            "--measure-on",
            metavar="TARGET",
            help="Run these steps on two nodes of a target, with communication.",
        ),
    ] = None,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate", help="Fit the model to the measured times of these runs of a target."
        ),
    ] = False,
    sweep: Annotated[
        Optional[str],
        typer.Option(
            "--sweep",
            metavar="KEY=LOW..HIGH",
            help="Advise for each value of a key: workers.count=2..32, or comm.bucket_mb=25,64.",
        ),
    ] = None,
    plot: Annotated[bool, typer.Option("--plot", help="Draw the step times as a chart.")] = False,
    svg: Annotated[
        Optional[Path],
        typer.Option(
            "--svg", metavar="FILE", help="Write the chart to this file; needs the extra report."
        ),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Write the recommended reducers into the job file.")
    ] = False,
    output: options.Output = "text",
) -> int:
    """Recommend a topology and a number of reducers for a job, with their cost.

    rsctl predicts times from what a step computes and from the bandwidth of the machines. Without
    --measure it sends nothing and starts nothing. docs/explanation/advice.md has the formulas.
    """
    if calibrate:
        print_fitted(calibrate_from(names), output)
        return int(ExitCode.SUCCEEDED)
    if len(names) != 1:
        context.fail("advise takes one JOB; several names are runs for --calibrate")
    if (measure or measure_on) and run:
        context.fail("give either --measure or --run, not both")
    (job,) = names
    if write and (sweep or job == "-"):
        context.fail("--write needs one job file and cannot be combined with --sweep")
    file = load(job, set=settings, strict=False)
    context.with_resource(Interrupts().listening())
    profile = measure_script(file, measure_on) if measure or measure_on else None
    if sweep:
        _sweep(file, target, (run, profile), _parse_sweep(sweep), plot, svg, output)
        return int(ExitCode.SUCCEEDED)
    alone = None if run else communication(file, target, profile=profile)
    if alone is not None:
        _show_communication(alone, write or plot or svg is not None, output)
        return int(ExitCode.SUCCEEDED)
    advice = _advise(file, target, (run, profile), plot, svg, output)
    if write:
        written = write_recommendation(job, advice)
        print_message(f"{job}: {', '.join(f'{k}: {v}' for k, v in written.items())}")
    return int(ExitCode.SUCCEEDED)


def _show_communication(alone: Communication, wants_step: bool, output: str) -> None:
    """Print the communication of a step, whose time cannot be predicted."""
    if wants_step:
        message = f"--write, --plot and --svg need the time of a step. {alone.sentence}"
        remedy = "add model.step_seconds to the file, or measure it with --measure"
        if alone.sharded:
            remedy = "omit these options"
        raise RsctlError(ExitCode.USAGE, error("advise", message, remedy))
    if output == "json":
        print_json(alone)
    else:
        print_communication(alone)


def _advise(
    file: JobFile,
    target: str | None,
    known: _Known,
    plot: bool,
    svg: Path | None,
    output: str,
) -> Advice:
    advice = advise(file, target, run=known[0], profile=known[1])
    if output == "json":
        print_json(advice_json(advice))
    else:
        print_advice(advice)
    _draw(advice_chart(advice), plot and output == "text", svg)
    return advice


def _sweep(
    file: JobFile,
    target: str | None,
    known: _Known,
    sweep: tuple[str, list[object]],
    plot: bool,
    svg: Path | None,
    output: str,
) -> None:
    key, values = sweep
    swept = advise_sweep(file, key, values, target, run=known[0], profile=known[1])
    if output == "json":
        print_json(sweep_json(swept))
    else:
        print_sweep(swept)
    _draw(sweep_chart(swept), plot and output == "text", svg)


def _draw(chart: LineChart, plot: bool, svg: Path | None) -> None:
    if plot:
        plot_lines(chart)
    if svg is None:
        return
    from rsctl.results.report.drawing import file_bytes

    try:
        svg.write_bytes(file_bytes(chart, "svg"))
    except OSError as problem:
        finding = error("svg", f"cannot write {svg}: {problem.strerror}")
        raise RsctlError(ExitCode.ENVIRONMENT, finding) from None
    print_message(f"chart: {svg}")
