"""`rsctl metrics RUN`: the metrics of a run."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from rsctl.api import Run, RunRecord, awaited_clouds
from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.runs import find_run
from rsctl.cli.silence import first_awaited
from rsctl.cli.views.run_text import format_metric
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs.stream.events import MetricEvent
from rsctl.runs.stream.formatting import format_number, sparkline
from rsctl.runs.stream.headline import Tally
from rsctl.runs.stream.ndjson import event_line
from rsctl.runs.stream.sanitize import sanitize


@make_command("metrics", json_errors="events")
def command(
    context: typer.Context,
    run: options.RunId,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print new values until the run has ended.")
    ] = False,
    plot: Annotated[bool, typer.Option("--plot", help="Draw a chart of every metric.")] = False,
    name: Annotated[
        list[str],
        typer.Option("--name", metavar="NAME", help="Show only this metric. Repeatable."),
    ] = [],
    nodes: Annotated[
        bool, typer.Option("--nodes", help="Also show the telemetry of the nodes and of the cloud.")
    ] = False,
    output: options.Output = "text",
) -> None:
    """Show the metrics of a run."""
    if follow and plot:
        context.fail("--plot draws the existing values and cannot be combined with --follow")
    is_awaited = bool(awaited_clouds(run))
    handle = find_run(run, asks_cloud=False)
    shown = handle.metrics(name, nodes=nodes, follow=follow)
    if not follow:
        shown = first_awaited(handle.id, shown)
        if is_awaited:
            handle = find_run(handle.id)  # shows why the cloud gives no answer
        else:
            handle.reload()
        _require(handle, name)
    if output == "json" or follow:
        for metric in shown:
            _print_one(metric, output)
        if follow:  # only now it is known which metrics came
            _require(handle, name)
    elif plot:
        from rsctl.cli.views.plot import plot_metrics

        plot_metrics(shown, handle.record.metrics_spec)
    else:
        _print_table(shown, handle.record, nodes)


def _require(run: Run, names: Iterable[str]) -> None:
    """Raises RsctlError if a run has metrics, and none of one of these names."""
    others = sorted(run.summary())
    for name in names:
        if others and name not in others and next(run.metrics([name], nodes=True), None) is None:
            message = f"{run.id} has no metric {name!r}{'' if run.state.is_final else ' yet'}"
            remedy = f"it has {', '.join(others)}; to see all with telemetry: --nodes"
            raise RsctlError(ExitCode.USAGE, error("metric", message, remedy))


def _print_one(metric: MetricEvent, output: str) -> None:
    if output == "json":
        sys.stdout.buffer.write(event_line(metric))
    else:
        step = f"step {metric.step}  " if metric.step is not None else ""
        value = format_number(metric.value)
        sys.stdout.write(sanitize(f"{metric.replica:<10} {step}{metric.name}={value}\n"))
    sys.stdout.flush()


def _print_table(metrics: Iterator[MetricEvent], run: RunRecord, nodes: bool) -> None:
    tally = Tally(run.metrics_spec)
    for metric in metrics:
        tally.add(metric)
    summary: dict[str, dict[str, Any]] = tally.summary(nodes=True)
    if not summary:
        yet = "" if run.state.is_final else " yet"
        define = "" if run.metrics_spec else "; define them in the job file, under metrics"
        more = "" if nodes else "; to see the telemetry of its nodes: --nodes"
        typer.echo(f"{run.run} has no metrics{yet}{define}{more}", err=True)
        return
    width = max(map(len, summary))
    for name, statistics in summary.items():
        bars = sparkline(tally.recent(name), 24)
        line = f"{name:<{width}}  {bars:<24}  {format_metric(statistics)}  of {statistics['count']}"
        typer.echo(sanitize(line))
