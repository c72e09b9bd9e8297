"""`rsctl bench list`: the benches, newest first."""

from __future__ import annotations

import typer

from rsctl import api
from rsctl.api import Bench
from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.show import print_json
from rsctl.cli.views.table import write_table

_HEAD = ["BENCH", "TARGET", "STATE", "RUNS", "CREATED (UTC)"]


@make_command("list")
def command(limit: options.Limit = 20, output: options.Output = "text") -> None:
    """List benches, newest first."""
    benches = api.benches(limit)
    if output == "json":
        print_json({"benches": [bench.to_dict() for bench in benches]})
    elif not benches:
        typer.echo("no benches yet; start one: rsctl bench run JOB", err=True)
    else:
        write_table([_HEAD, *map(_row, benches)])


def _row(bench: Bench) -> list[str]:
    runs = f"{bench.done}/{bench.total}"
    created = bench.record.created[:19].replace("T", " ")
    return [bench.id, bench.record.target, bench.state_text, runs, created]
