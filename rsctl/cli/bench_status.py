"""`rsctl bench status BENCH`: its cells, what came of their runs, their metrics."""

from __future__ import annotations

import sys
from time import sleep

import msgspec
import typer

from rsctl.api import Store
from rsctl.bench.records import Bench, Benches
from rsctl.bench.summary import done, format_cell, summarize
from rsctl.cli import options
from rsctl.cli.bench_common import how_to_go_on, shown, state_of, table
from rsctl.cli.command import make_command
from rsctl.cli.show import print_json
from rsctl.findings import ExitCode, JobState
from rsctl.stream.sanitize import sanitize

_WATCH_SECONDS = 0.5


@make_command("status")
@options.errors_as_json
def command(
    bench: options.Bench, watch: options.Watch = False, output: options.Output = "text"
) -> int:
    """Show the cells of a bench and what came of their runs.

    Exit code: 0; with --watch that of the bench.
    """
    store = Store()
    known = Benches(store).find(bench)
    _print(store, known, output)
    while watch and state_of(known) not in _FINAL:
        sleep(_WATCH_SECONDS)
        before, known = known, Benches(store).find(known.bench)
        if known != before:
            _print(store, known, output)
    return int(known.exit_code if watch else ExitCode.SUCCEEDED)


_FINAL = {"incomplete", *(state.value for state in JobState if state.is_final)}


def _print(store: Store, bench: Bench, output: str) -> None:
    cells = summarize(store, bench)
    if output == "json":
        print_json({**shown(bench), "cells": msgspec.to_builtins(cells)})
    else:
        typer.echo(sanitize("\n".join([*_head(bench), *table(bench, cells), *_failures(bench)])))
    sys.stdout.flush()


def _head(bench: Bench) -> list[str]:
    state, total = state_of(bench), len(bench.cells) * bench.repeat
    lines = [f"{bench.bench} on {bench.target}  {state}  {done(bench)} of {total} runs"]
    if state == "incomplete":
        lines.append(f"nobody runs it; go on: {how_to_go_on(bench)}")
    return lines


def _failures(bench: Bench) -> list[str]:
    """The runs that have not succeeded, by which their logs are found."""
    return [
        f"{trial.state.value}: {format_cell(bench.cells[trial.cell])} #{trial.repetition + 1}"
        f"  {trial.run}" + (f"  {trial.reason}" if trial.reason else "")
        for trial in bench.latest().values()
        if trial.state.is_final and trial.state is not JobState.SUCCEEDED
    ]
