"""`rsctl list`: the runs, newest first."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Annotated, NamedTuple, Optional, Union

import typer

from rsctl.api import Bench, BenchRecord, Finding, Run, RunRecord, bench, dollars, runs
from rsctl.api.bench_list import bench_ids
from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.runs import show_outdated
from rsctl.cli.show import print_json, print_message
from rsctl.cli.silence import silence_told
from rsctl.cli.times import parse_since
from rsctl.cli.views.run_text import format_values, paint_state
from rsctl.cli.views.table import write_table
from rsctl.findings import JobState, counted
from rsctl.runs.stream.events import now, seconds_between
from rsctl.runs.stream.formatting import format_bytes, format_duration
from rsctl.runs.stream.sanitize import sanitize_line


@make_command("list")
def command(
    limit: options.Limit = 20,
    name: Annotated[
        Optional[str],
        typer.Option(
            "--name", metavar="GLOB", help="Only runs of jobs with this name, such as 'train*'."
        ),
    ] = None,
    state: Annotated[
        list[JobState],
        typer.Option(
            "--state",
            metavar="STATE",
            help="Only runs in this state, such as running or failed. Repeatable.",
        ),
    ] = [],
    target: Annotated[Optional[str], options.target_option("Only runs on this target.")] = None,
    since: Annotated[
        Optional[str],
        typer.Option(
            "--since",
            metavar="TIME",
            help="Only runs created since a time: 2h (ago) or RFC 3339.",
        ),
    ] = None,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            help="Also show its placement, its cost and its size on the disk.",
        ),
    ] = False,
    cells: Annotated[
        bool, typer.Option("--cells", help="Show each run of a bench, not one row for all of them.")
    ] = False,
    output: options.Output = "text",
) -> None:
    """List runs, newest first. The runs of a bench are one row."""
    reported: list[str] = []

    def report(name: str, findings: tuple[Finding, ...]) -> None:
        reported.append(name)
        show_outdated(name, findings)

    bench_of = {} if cells or output == "json" else bench_ids()
    with silence_told():
        handles = runs(
            limit + 1 if limit else None,
            name=name,
            states=state,
            since=parse_since(since) if since else None,
            target=target,
            groups=bench_of,
            on_outdated=report,
        )
    rows = _fold(handles, bench_of)
    rows, older = (rows[:limit], rows[limit:]) if limit else (rows, [])
    handles = [run for row in rows for run in row.runs]
    sizes = {run.id: run.disk_use() for run in handles if verbose}
    if output == "json":
        print_json({"runs": [{**run.to_dict(), **_disk(run, sizes)} for run in handles]})
    elif handles:
        _print_table(rows, sizes)
        if rate := _rate(handles):
            print_message(rate)
    elif not reported:
        is_chosen = name is not None or state or since or target
        nothing = "no such runs" if is_chosen else "no runs yet; start one: rsctl submit JOB"
        typer.echo(nothing, err=True)
    if older:
        print_message(
            f"there are older runs; to see them: rsctl list -n {2 * limit}, or -n 0 for all"
        )


class _Row(NamedTuple):
    """One run, or the listed runs of a bench."""

    bench: Optional[Bench]
    runs: list[Run]

    @property
    def name(self) -> str:
        return self.bench.id if self.bench else self.runs[0].id

    @property
    def record(self) -> Union[RunRecord, BenchRecord]:
        return self.bench.record if self.bench else self.runs[0].record


def _fold(found: list[Run], bench_of: Mapping[str, str]) -> list[_Row]:
    """The rows, in the order of their newest runs."""
    rows: dict[str, list[Run]] = {}
    for run in found:
        rows.setdefault(bench_of.get(run.id, run.id), []).append(run)
    return [_Row(bench(name) if of[0].id in bench_of else None, of) for name, of in rows.items()]


def _disk(run: Run, sizes: dict[str, int]) -> dict[str, int]:
    return {"disk": sizes[run.id]} if run.id in sizes else {}


def _rate(found: list[Run]) -> str:
    """The hourly price of all listed runs in progress; empty if no price is known."""
    running = [run.cost() for run in found if run.state is JobState.RUNNING]
    rates = [cost.per_hour for cost in running if cost is not None]
    known = [rate for rate in rates if rate is not None]
    if not known:
        return ""
    unknown = len(rates) - len(known)
    without = f", without {counted(unknown, 'run')} of unknown price" if unknown else ""
    listed = counted(len(rates), "listed run")  # older runs may be in progress too
    return f"{listed} in progress: {dollars(sum(known))} per hour{without}"


_HEAD = ("RUN", "TARGET", "STATE", "EXIT", "CREATED (UTC)", "TIME", "COST", "DISK")


def _print_table(rows: list[_Row], sizes: dict[str, int]) -> None:
    write_table(
        [(*_HEAD, "OVERRIDES AND METRICS"), *(_cells(row, sizes) for row in rows)],
        right=("EXIT", "TIME", "COST", "DISK"),
        paint={"STATE": partial(paint_state, sys.stdout)},
    )


def _cells(row: _Row, sizes: dict[str, int]) -> list[str]:
    """A row of the table; `sizes` of runs on the disk are only there if verbose."""
    record = row.record
    took = format_duration(seconds_between(record.created, record.ended or now()))
    created = record.created[:16].replace("T", " ")
    used = format_bytes(sum(sizes.get(run.id, 0) for run in row.runs)) if sizes else ""
    if row.bench is not None:
        state, code, cost = row.bench.state_text, "", ""
        details = _states(row.runs, row.bench.record.commit)
        took = took if record.ended or row.bench.is_driven else ""
    else:
        state, code, cost, details = _of_run(row.runs[0], bool(sizes))
    return [row.name, record.target, state, code, created, took, cost, used, details]


def _of_run(run: Run, is_verbose: bool) -> tuple[str, str, str, str]:
    """The state, exit code, cost (only if verbose) and details of a run."""
    record = run.record
    code = "" if record.exit_code is None else str(record.exit_code)
    details = _details(record, run.last_values())
    if not is_verbose:
        return record.state.value, code, "", details
    return record.state.value, code, _cost(run), f"{_placement(record)}{details}"


def _states(found: list[Run], commit: str | None) -> str:
    """How the listed runs of a bench have ended: `bench of 1a2b3c4d5e, 2 runs: 2 succeeded`."""
    of_commit = f" of {commit[:10]}{'-dirty' * commit.endswith('-dirty')}" if commit else ""
    counts = Counter(run.record.state.value for run in found)
    states = ", ".join(f"{count} {state}" for state, count in counts.items())
    return f"bench{of_commit}, {counted(len(found), 'run')}: {states}"


def _cost(run: Run) -> str:
    """The run's cost as `12.30 USD`; empty if no price is known."""
    cost = run.cost()
    return dollars(cost.dollars) if cost and cost.dollars is not None else ""


def _placement(run: RunRecord) -> str:
    """The present placement of a run, among its possible placements."""
    tried = [placement for placement in run.placements if placement.began]
    nth = f"placement {len(tried)} of {len(run.placements)}"
    return f"{sanitize_line(str(tried[-1]))} ({nth})  " if tried else ""


def _details(run: RunRecord, values: dict[str, float]) -> str:
    """The overrides of the job file, and the last values of metrics, declared metrics first."""
    settings = [f"--set {shlex.quote(setting)}" for setting in run.settings]
    return sanitize_line("  ".join([*settings, *format_values(run, values)]))
