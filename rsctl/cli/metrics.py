"""`rsctl metrics RUN`: what the job measured."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from time import sleep
from typing import Annotated, Any

import typer

from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.runs import find_run, refresh_run
from rsctl.cli.views import format_metric
from rsctl.findings import ExitCode
from rsctl.runs.store import Run, Store
from rsctl.stream.events import MetricEvent
from rsctl.stream.formatting import format_number, sparkline
from rsctl.stream.metrics import MACHINES, Tally
from rsctl.stream.ndjson import event_line
from rsctl.stream.sanitize import sanitize

_POLL_SECONDS = 0.3


@make_command("metrics")
def command(
    context: typer.Context,
    run: options.Run,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print values as they come, until the end.")
    ] = False,
    plot: Annotated[bool, typer.Option("--plot", help="Draw a chart of every metric.")] = False,
    name: Annotated[
        list[str],
        typer.Option("--name", metavar="NAME", help="Only this metric. Repeatable."),
    ] = [],
    nodes: Annotated[
        bool, typer.Option("--nodes", help="The nodes' telemetry, and the cloud's, too.")
    ] = False,
    output: options.Output = "text",
) -> int:
    """Show the metrics of a run."""
    if follow and plot:
        context.fail("--plot draws what is there; it cannot follow.")
    store = Store()
    known, target = find_run(store, run)
    target.collect(known.run)
    values = _values(store, known, follow)
    shown = (m for m in values if _is_shown(m, name, nodes))
    if output == "json" or follow:
        for metric in shown:
            _print_one(metric, output)
    elif plot:
        from rsctl.cli.plot import plot_metrics

        plot_metrics(shown, known.metrics_spec)
    else:
        _print_table(shown, known, nodes)
    return int(ExitCode.SUCCEEDED)


def _is_shown(metric: MetricEvent, names: Sequence[str], nodes: bool) -> bool:
    if names:
        return metric.name in names
    return nodes or not metric.name.startswith(MACHINES)


def _values(store: Store, run: Run, follow: bool) -> Iterator[MetricEvent]:
    """The run's values; with `follow` until it has ended."""
    seen = 0
    while True:
        for row, metric in store.metrics(run.run, after=seen):
            seen = row
            yield metric
        if run.state.is_final or not follow:
            return
        sleep(_POLL_SECONDS)
        run = refresh_run(store, run)


def _print_one(metric: MetricEvent, output: str) -> None:
    if output == "json":
        sys.stdout.buffer.write(event_line(metric))
    else:
        step = f"step {metric.step}  " if metric.step is not None else ""
        value = format_number(metric.value)
        sys.stdout.write(sanitize(f"{metric.replica:<10} {step}{metric.name}={value}\n"))
    sys.stdout.flush()


def _print_table(metrics: Iterator[MetricEvent], run: Run, nodes: bool) -> None:
    tally = Tally(run.metrics_spec)
    for metric in metrics:
        tally.add(metric.name, metric.value)
    figures: dict[str, dict[str, Any]] = tally.summary(nodes=True)
    if not figures:
        more = "" if nodes else "; --nodes shows the telemetry of its nodes"
        typer.echo(f"{run.run} has no metrics (yet){more}", err=True)
        return
    width = max(map(len, figures))
    for name, figure in figures.items():
        bars = sparkline(list(tally.recent[name]), 24)
        line = f"{name:<{width}}  {bars:<24}  {format_metric(figure)}  of {figure['count']}"
        typer.echo(sanitize(line))
