"""`rsctl report RUN|BENCH…`: an HTML file about runs and benches."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Optional

import typer

from rsctl.api import Bench, Store, is_baseline, read_series, results_of
from rsctl.atomic_file import write_file
from rsctl.cli.command import OUTPUT, make_command
from rsctl.cli.runs import find_collected
from rsctl.cli.show import print_message
from rsctl.runs.stream.formatting import format_bytes

if TYPE_CHECKING:
    from rsctl.results.report.build import Source
    from rsctl.results.report.charts import Chart


@make_command("report", json_errors=False)
def command(
    context: typer.Context,
    sources: Annotated[
        Optional[list[str]],
        typer.Argument(
            metavar="RUN|BENCH...",
            help="Runs, benches or baseline files, named as in other commands.",
        ),
    ] = None,
    histories: Annotated[
        list[str],
        typer.Option(
            "--history",
            metavar="WHERE",
            help="A history, with its steps: FILE, gs://…, s3://… or git:REF:PATH. Repeatable.",
        ),
    ] = [],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            rich_help_panel=OUTPUT,
            help="The file to write; - is standard output.",
        ),
    ] = "report.html",
    charts: Annotated[
        Optional[str],
        typer.Option(
            "--charts", metavar="DIR", help="Also write each chart as a file, into this folder."
        ),
    ] = None,
    chart_format: Annotated[
        Literal["svg", "png"],
        typer.Option(
            "--chart-format", help="The format of the chart files; png needs the extra report."
        ),
    ] = "svg",
) -> int:
    """Write an HTML report of runs, benches and histories, with charts.

    The file needs no network and contains no scripts. The command compares several runs or benches,
    the last with the first.

    Exit code: 0; 3 if the cloud of a run cannot be asked: the report has what is stored.
    """
    from rsctl.results.report.build import make_report
    from rsctl.results.report.png import require_matplotlib

    if not sources and not histories:
        context.fail("Missing argument 'RUN|BENCH...', or --history WHERE.")
    if output == "json":  # as for other commands
        context.fail("-o is the file of the report. For JSON: rsctl export --format json RUN.")
    if charts is not None and chart_format == "png":
        require_matplotlib()
    store = Store()
    locations: dict[str, dict[str, str]] = {}
    series = [(location, read_series(location).series) for location in histories]
    codes: list[int] = []
    found = [_find(store, name, locations, codes) for name in sources or []]
    report = make_report(store, found, locations, series)
    data = report.html.encode("utf-8")
    if output == "-":
        sys.stdout.buffer.write(data)
    else:
        write_file(output, data, "give another path with -o")
        count = f"{len(report.charts)} charts" if len(report.charts) != 1 else "1 chart"
        print_message(f"{output}: {format_bytes(len(data))}, {count}")
    if charts is not None:
        _write_charts(Path(charts), report.charts, chart_format)
    return max(codes, default=0)


def _find(
    store: Store, reference: str, locations: dict[str, dict[str, str]], codes: list[int]
) -> Source:
    """A run that was brought up to date, a bench, or the results of a baseline. Raises RsctlError.

    Stores the locations of a run's results in `locations`, and the exit code in `codes`.
    """
    if is_baseline(reference):
        return results_of(reference)
    run, code = find_collected(reference)
    codes.append(code)
    if isinstance(run, Bench):
        return run.record
    locations[run.id] = run.locations()
    return store.find(run.id)


def _write_charts(folder: Path, charts: Sequence[Chart], form: Literal["svg", "png"]) -> None:
    from rsctl.results.report.drawing import file_bytes

    for number, chart in enumerate(charts, 1):
        name = re.sub(r"[^a-z0-9]+", "-", chart.title.lower()).strip("-")[:60]
        write_file(folder / f"{number:02}-{name}.{form}", file_bytes(chart, form))
    print_message(f"{folder}: {len(charts)} {'file' if len(charts) == 1 else 'files'}")
