"""`rsctl history bisect JOB`: search for the commit with which a job became worse."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from rsctl.api import Bisected, Probe, prepare_bisect, short_commit
from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.gate_run import BenchRunner
from rsctl.cli.output import without_reader
from rsctl.cli.show import print_json, print_message
from rsctl.cli.views.table import write_table
from rsctl.findings import ExitCode
from rsctl.runs.stream.formatting import format_change
from rsctl.runs.stream.sanitize import sanitize_text


@make_command("bisect")
def command(
    job: Annotated[str, typer.Argument(metavar="JOB", help="A job file in a git working tree.")],
    good: Annotated[
        Optional[str],
        typer.Option("--good", metavar="REF", help="A commit before the regression."),
    ] = None,
    bad: Annotated[
        Optional[str],
        typer.Option("--bad", metavar="REF", help="A commit with it. Default: HEAD."),
    ] = None,
    history: Annotated[
        Optional[str],
        typer.Option(
            "--history",
            metavar="WHERE",
            help="A history: search the range of its last step for the worse. Default without "
            "--good: the job file's gate.history.",
        ),
    ] = None,
    metrics: Annotated[
        list[str],
        typer.Option("--metric", "-m", metavar="NAME", help="Judge by this metric. Repeatable."),
    ] = [],
    cells: Annotated[
        list[str],
        typer.Option("--cell", metavar="KEY=VALUE", help="Search this cell alone. Repeatable."),
    ] = [],
    max_regression: Annotated[
        list[str],
        typer.Option(
            "--max-regression",
            metavar="METRIC=5%",
            help="The least regression to search for. Default: the job file's gate. Repeatable.",
        ),
    ] = [],
    target: options.Target = None,
    settings: options.Settings = [],
    repeat: Annotated[
        Optional[int],
        typer.Option(
            "--repeat", "-r", metavar="N", min=1, max=1000, help="Number of runs of each commit."
        ),
    ] = None,
    parallel: options.Parallel = None,
    output: options.Output = "text",
) -> int:
    """Search for the commit with which a job became worse.

    The command measures the commits between a good and a bad one by binary search. Each commit is a
    bench, judged by the test of the gate. Both ends are measured in all cells of the matrix, the
    others in the cell of the worst regression. Run an interrupted command again to continue.
    Commits that fail to build or to run are skipped.

    Exit code: 0 if the regression is found, 8 if there is none or skipped commits hide it.
    """
    prepared = prepare_bisect(
        job,
        good=good,
        bad=bad,
        history=history,
        metrics=metrics,
        cells=cells,
        target=target,
        set=settings,
        repeat=repeat,
        max_regression=max_regression,
    )
    first, last = prepared.commits[0], prepared.commits[-1]
    print_message(
        f"{len(prepared.commits) - 1} commits in {short_commit(first.commit)}.."
        f"{short_commit(last.commit)}: about {prepared.most_runs} runs"
    )
    found = prepared.run(BenchRunner(parallel), _show_probe)
    if output == "json":
        print_json(found)
    else:
        _print(found)
    return int(ExitCode.SUCCEEDED if found.first_bad else ExitCode.INCONCLUSIVE)


def _show_probe(probe: Probe, tests: int) -> None:
    left = f"about {tests} more to test" if tests else "none left to test"
    print_message(sanitize_text(f"{' '.join(_row(probe)[:4])} ({left})"))


@without_reader()
def _print(found: Bisected) -> None:
    if found.probes:
        write_table(
            [("COMMIT", "VERDICT", "CHANGE", "REASON", "SUBJECT"), *map(_row, found.probes)]
        )
    change = format_change(found.effect) if found.is_relative else f"{found.effect:+.4g}"
    ends = f"{short_commit(found.good)}..{short_commit(found.bad)}"
    typer.echo(sanitize_text(f"{found.cell}: {change} in {ends}"))
    typer.echo(sanitize_text(found.headline))


def _row(probe: Probe) -> tuple[str, str, str, str, str]:
    effect = "" if probe.effect is None else format_change(probe.effect)
    commit, verdict = short_commit(probe.commit), probe.mark.value
    return commit, verdict, effect, probe.reason[:80], probe.subject[:60]
