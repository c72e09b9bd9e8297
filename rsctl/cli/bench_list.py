"""`rsctl bench list`: the benches, newest first."""

from __future__ import annotations

import typer

from rsctl import api
from rsctl.api import Bench
from rsctl.cli import options
from rsctl.cli.bench_common import state_of
from rsctl.cli.command import make_command
from rsctl.cli.show import print_json
from rsctl.findings import ExitCode


@make_command("list")
@options.errors_as_json
def command(limit: options.Limit = 20, output: options.Output = "text") -> int:
    """List benches, newest first."""
    benches = api.benches(limit)
    if output == "json":
        print_json({"benches": [bench.to_dict() for bench in benches]})
    elif not benches:
        typer.echo("no benches yet; start one: rsctl bench run JOB", err=True)
    else:
        _print_table(benches)
    return int(ExitCode.SUCCEEDED)


def _print_table(benches: list[Bench]) -> None:
    width = max(len(bench.id) for bench in benches)
    typer.echo(f"{'BENCH':<{width}}  {'TARGET':<9}  {'STATE':<10}  {'RUNS':<9}  CREATED (UTC)")
    for bench in benches:
        runs = f"{bench.done}/{bench.total}"
        created = bench.record.created[:19].replace("T", " ")
        state = state_of(bench)
        target = bench.record.target
        typer.echo(f"{bench.id:<{width}}  {target:<9}  {state:<10}  {runs:<9}  {created}")
