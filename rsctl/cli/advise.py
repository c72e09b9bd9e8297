"""`rsctl advise JOB`: the topology, the number of reducers, and the cost."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Optional

import typer

from rsctl.api import (
    Communication,
    JobFile,
    Run,
    advise,
    advise_sweep,
    calibrate_from,
    communication,
    load,
    measure,
    write_recommendation,
)
from rsctl.api.advice import advice_json
from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.interrupts import Interrupts
from rsctl.cli.show import print_json, print_message
from rsctl.cli.views.advice import print_advice, print_communication, print_sweep, sweep_json
from rsctl.cli.views.advice_charts import advice_chart, plot_lines, sweep_chart
from rsctl.cli.views.calibration import print_fitted
from rsctl.estimate.advice.profile import Profile
from rsctl.estimate.advice.recommendation import format_seconds
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.results.report.charts import LineChart
from rsctl.runs.stream.formatting import format_bytes

_RANGE = re.compile(r"([0-9]{1,7})\.\.([0-9]{1,7})")
_MOST_VALUES = 32
_DATA_SHOWN_FROM = 0.01


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
) -> None:
    """Recommend a topology and a number of reducers for a job, with their cost.

    rsctl predicts times from what a step computes and from the bandwidth of the machines. Without
    --measure it sends nothing and starts nothing. docs/explanation/advice.md has the formulas.
    """
    if calibrate:
        print_fitted(calibrate_from(names), output)
        return
    if len(names) != 1:
        context.fail("advise takes one JOB; several names are runs for --calibrate")
    if (measure or measure_on) and run:
        context.fail("give either --measure or --run, not both")
    (job,) = names
    if write and (sweep or job == "-"):
        context.fail("--write needs one job file and cannot be combined with --sweep")
    file = load(job, set=settings, strict=False)
    context.with_resource(Interrupts().listening())
    profile = _measure_script(file, measure_on) if measure or measure_on else None
    if sweep:
        key, values = _parse_sweep(sweep)
        swept = advise_sweep(file, key, values, target, run=run, profile=profile)
        if output == "json":
            print_json(sweep_json(swept))
        else:
            print_sweep(swept)
        _draw(sweep_chart(swept), plot and output == "text", svg)
        return
    alone = None if run else communication(file, target, profile=profile)
    if alone is not None:
        _show_communication(alone, write or plot or svg is not None, output)
        return
    advice = advise(file, target, run=run, profile=profile)
    if output == "json":
        print_json(advice_json(advice))
    else:
        print_advice(advice)
    _draw(advice_chart(advice), plot and output == "text", svg)
    if write:
        written = write_recommendation(job, advice)
        print_message(f"{job}: {', '.join(f'{k}: {v}' for k, v in written.items())}")


def _measure_script(job: JobFile, on: str | None) -> Profile:
    """Run a few steps of the job's script; returns the measured profile.

    Raises RsctlError.
    """
    where = f"on two nodes of {on}" if on else "on this machine"

    def tell(run: Run) -> None:
        print_message(f"measuring a few steps of the script {where}: run {run.id}")

    profile = measure(job, on=on, on_begin=tell)
    parts = [
        f"a step of {format_seconds(profile.step_seconds)} without communication",
        f"{format_bytes(profile.gradient_bytes)} of gradients",
    ]
    if profile.data_seconds > _DATA_SHOWN_FROM * profile.step_seconds:
        parts.append(f"{format_seconds(profile.data_seconds)} of it waits for input")
    print_message(f"measured: {', '.join(parts)}")
    return profile


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
