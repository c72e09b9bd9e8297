"""The output of `rsctl advise --calibrate`: predictions before and after the fit."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import typer

from rsctl.api import Fitted
from rsctl.cli.show import print_json, print_message
from rsctl.cli.views.table import write_table
from rsctl.estimate.advice.calibrate import FEWEST_TO_CHECK
from rsctl.estimate.advice.recommendation import format_seconds

_HEAD = ["RUN", "MEASURED", "PREDICTED THEN", "BEFORE", "ERROR", "AFTER", "ERROR"]


def print_fitted(targets: Sequence[Fitted], output: str) -> None:
    """Print a table of runs for each target and its new constants, or all of it as JSON."""
    if output == "json":
        print_json({"calibrations": msgspec.to_builtins(targets, enc_hook=str)})
        return
    for fitted in targets:
        _print(fitted)


def _print(fitted: Fitted) -> None:
    rows = [
        [
            run.run,
            format_seconds(run.measured_seconds),
            format_seconds(run.predicted_seconds) if run.predicted_seconds else "",
            format_seconds(run.before_seconds),
            _error(run.before_seconds, run.measured_seconds),
            format_seconds(run.after_seconds),
            _error(run.after_seconds, run.measured_seconds),
        ]
        for run in fitted.runs
    ]
    write_table([_HEAD, *rows])
    constants = fitted.calibration
    typer.echo(
        f"{fitted.target}: {constants.bandwidth_fraction:.1%} of the links' net rate, "
        f"{1e6 * constants.alpha_seconds:.0f} us per message, {constants.overlap:.0%} of the "
        "communication overlaps the backward pass"
    )
    typer.echo(
        f"CPU seconds per GB: {constants.ring_cpu_seconds_per_gb:.2f} for a ring, "
        f"{constants.worker_cpu_seconds_per_gb:.2f} for a worker with reducers, "
        f"{constants.reducer_cpu_seconds_per_gb:.2f} for a reducer"
    )
    if constants.median_error is not None:
        print_message(f"median error of a predicted step time: {constants.median_error:.1%}")
    else:
        fewest = f"it takes {FEWEST_TO_CHECK} runs to measure the error of a prediction"
        print_message(f"{fewest}; ERROR is how well the constants fit these runs")
    print_message(f"saved in {fitted.file}")


def _error(predicted: float, measured: float) -> str:
    return f"{predicted / measured - 1:+.1%}"
