"""`rsctl compare A B…`: runs, benches and baselines side by side."""

from __future__ import annotations

import csv
import io
import sys
from typing import Annotated, Literal

import typer

from rsctl.api import Comparison, compare, comparison_markdown, comparison_table, is_baseline
from rsctl.cli import options
from rsctl.cli.command import OUTPUT, make_command
from rsctl.cli.runs import find_run_or_bench
from rsctl.cli.show import print_json, print_message
from rsctl.cli.views.table import write_table
from rsctl.runs.stream.sanitize import sanitize_text

_CSV_HEAD = (
    *("metric", "unit", "goal", "cell", "side", "n", "median", "values"),
    *("effect", "low", "high", "p", "remark"),
)


@make_command("compare")
def command(
    sides: Annotated[
        list[str],
        typer.Argument(
            metavar="A [B...]",
            help="Runs, benches or baseline files, named as in other commands.",
        ),
    ],
    metrics: options.MetricNames = [],
    output: Annotated[
        Literal["text", "json", "markdown", "csv"],
        typer.Option(
            "--output",
            "-o",
            rich_help_panel=OUTPUT,
            help="The format of standard output.",
        ),
    ] = "text",
) -> None:
    """Compare runs, benches and baselines, the last with the first.

    Exit code: 0 regardless of the difference; `rsctl gate` decides.
    """
    sources = [side if is_baseline(side) else find_run_or_bench(side) for side in sides]
    comparison = compare(*sources, metrics=metrics)
    if output == "json":
        print_json(comparison)
    elif output == "markdown":
        sys.stdout.write(comparison_markdown(comparison))
    elif output == "csv":
        sys.stdout.write(_csv(comparison))
    else:
        _print(comparison)


def _print(comparison: Comparison) -> None:
    for number, side in enumerate(comparison.sides, 1):
        print_message(
            f"{number}  {side.kind} {side.label}" + (f"  {side.made[:19]}" if side.made else "")
        )
    if comparison.differences:
        print_message("they differ in")
        for difference in comparison.differences:
            print_message(f"  {difference}")
    if not comparison.metrics:
        print_message("no metric has data on either side")
        return
    write_table(comparison_table(comparison))
    print_message(
        "values are medians of runs; a run's value is its sample over the steady part, where "
        "`rsctl list` shows the last value"
    )
    for remark in comparison.remarks:
        print_message(remark)


def _csv(comparison: Comparison) -> str:
    """Write a row per metric, cell and side, so that a spreadsheet does not read a name as a
    formula.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_CSV_HEAD)
    for metric in comparison.metrics:
        for about, side in zip(comparison.sides, metric.sides, strict=True):
            is_last = about is comparison.sides[-1] and len(comparison.sides) > 1
            low, high = metric.interval or (None, None)
            verdict = [metric.effect, low, high, metric.p, metric.remark]
            writer.writerow(
                [
                    _plain(metric.name),
                    _plain(side.unit or ""),
                    metric.goal or "",
                    _plain(metric.where),
                    _plain(about.label),
                    side.n,
                    _cell(side.value),
                    " ".join(_cell(value) for value in side.values),
                    *((_cell(value) for value in verdict) if is_last else [""] * len(verdict)),
                ]
            )
    return text.getvalue()


def _cell(value: float | str | None) -> str:
    return "" if value is None else _plain(value) if isinstance(value, str) else repr(value)


def _plain(text: str) -> str:
    text = sanitize_text(text)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text
