"""`rsctl bench status BENCH`: its cells, the results of their runs, their metrics."""

from __future__ import annotations

import sys

import msgspec
import typer

from rsctl import api
from rsctl.api import Bench, JobState, format_trial
from rsctl.cli import options
from rsctl.cli.bench_common import print_table
from rsctl.cli.command import make_command
from rsctl.cli.show import print_json
from rsctl.findings import ExitCode
from rsctl.runs.stream.sanitize import sanitize


@make_command("status")
def command(
    bench: options.BenchArgument, watch: options.Watch = False, output: options.Output = "text"
) -> int:
    """Show the cells of a bench and the results of their runs.

    Exit code: 0; with --watch, the exit code of the bench.
    """
    handle = api.bench(bench)
    if not watch:
        _print(handle, output)
        return int(ExitCode.SUCCEEDED)
    for _ in handle.watch():
        _print(handle, output, is_line=True)
    return int(handle.exit_code)


def _print(bench: Bench, output: str, is_line: bool = False) -> None:
    cells = bench.summary()
    if output == "json":
        print_json({**bench.to_dict(), "cells": msgspec.to_builtins(cells)}, is_line=is_line)
    else:
        typer.echo("\n".join(_head(bench)))
        print_table(bench, cells)
        for failure in _failures(bench):
            typer.echo(sanitize(failure))
    sys.stdout.flush()


def _head(bench: Bench) -> list[str]:
    state = bench.state_text
    where = ", a rehearsal on this machine" if bench.record.rehearsed else ""
    about = f"{bench.id} on {bench.record.target}{where}"
    lines = [f"{about}  {state}  {bench.done} of {bench.total} runs"]
    if state == "incomplete":
        lines.append(f"no process runs this bench; to continue: {bench.record.command()}")
    return lines


def _failures(bench: Bench) -> list[str]:
    """The runs that have not succeeded, so that the user can find their logs."""
    return [
        f"{trial.state.value}: {format_trial(bench.cells, trial)}"
        f"  {trial.run}" + (f"  {trial.reason}" if trial.reason else "")
        for trial in bench.record.latest().values()
        if trial.state.is_final and trial.state is not JobState.SUCCEEDED
    ]
