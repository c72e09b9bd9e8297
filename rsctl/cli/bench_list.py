"""`rsctl bench list`: the benches, the newest first."""

from __future__ import annotations

import typer

from rsctl.api import Store
from rsctl.bench.records import Bench, Benches
from rsctl.bench.summary import done
from rsctl.cli import options
from rsctl.cli.bench_common import shown, state_of
from rsctl.cli.command import make_command
from rsctl.cli.show import print_json
from rsctl.findings import ExitCode


@make_command("list")
@options.errors_as_json
def command(limit: options.Limit = 20, output: options.Output = "text") -> int:
    """List benches, the newest first."""
    benches = Benches(Store()).benches(limit or -1)
    if output == "json":
        print_json({"benches": [shown(bench) for bench in benches]})
    elif not benches:
        typer.echo("no benches yet; start one: rsctl bench run JOB", err=True)
    else:
        _print_table(benches)
    return int(ExitCode.SUCCEEDED)


def _print_table(benches: list[Bench]) -> None:
    width = max(len(bench.bench) for bench in benches)
    typer.echo(f"{'BENCH':<{width}}  {'TARGET':<9}  {'STATE':<10}  {'RUNS':<9}  CREATED (UTC)")
    for bench in benches:
        runs = f"{done(bench)}/{len(bench.cells) * bench.repeat}"
        created = bench.created[:19].replace("T", " ")
        state = state_of(bench)
        typer.echo(f"{bench.bench:<{width}}  {bench.target:<9}  {state:<10}  {runs:<9}  {created}")
