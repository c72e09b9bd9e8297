"""`rsctl status RUN`: a run, its replicas, its first failure."""

from __future__ import annotations

import sys

import typer

from rsctl.api import Finding, Replica, Run
from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.runs import find_run
from rsctl.cli.show import format_finding, print_json, remedy_line
from rsctl.cli.views.cost import format_run_cost
from rsctl.cli.views.goodput import format_goodput
from rsctl.cli.views.results import is_empty
from rsctl.cli.views.run_text import (
    failure_block,
    format_attempt,
    format_placement,
    format_values,
    state_on,
)
from rsctl.findings import ExitCode
from rsctl.runs.stream.events import now, seconds_between
from rsctl.runs.stream.formatting import format_duration
from rsctl.runs.stream.sanitize import sanitize, sanitize_line


@make_command("status")
def command(
    run: options.RunId, watch: options.Watch = False, output: options.Output = "text"
) -> int:
    """Show a run and its replicas.

    Exit code: 0; with --watch, the exit code of the run.
    """
    handle = find_run(run)
    if not watch:
        _print(handle, output)
        return int(ExitCode.SUCCEEDED)
    for _ in handle.watch():
        _print(handle, output, is_line=True)
    return int(handle.state.exit_code)


def _print(run: Run, output: str, is_line: bool = False) -> None:
    if output == "json":
        print_json(run.to_dict(details=True), is_line=is_line)
    else:
        typer.echo(sanitize("\n".join(_lines(run))))
    sys.stdout.flush()


def _lines(found: Run) -> list[str]:
    run = found.record
    took = format_duration(seconds_between(run.created, run.ended or now()))
    why = f": {run.reason}" if run.reason else ""
    where = ", a rehearsal on this machine" if found.is_rehearsed else ""
    attempt = f", attempt {run.attempt}" if run.attempt > 1 else ""
    details = _details(found)
    width = max([12, *(len(name) + 2 for name, _ in details)])
    return [
        f"{run.url}  {state_on(sys.stdout, run.state)}{why}",
        f"{took} since {run.created}{attempt}{where}",
        *(f"  {name:<{width}}{text}".rstrip() for name, text in details),
        *(line for finding in found.findings() for line in _finding_lines(finding)),
        *failure_block(run),
    ]


def _details(found: Run) -> list[tuple[str, str]]:
    """The lines of the table below the state: a name and what it is."""
    run = found.record
    rows = [(replica.replica, _replica(replica)) for replica in run.replicas]
    waiting = found.waiting()
    rows += [("waiting", waiting.describe())] if waiting is not None else []
    if values := format_values(run, found.last_values()):
        rows.append(("metrics", sanitize_line("  ".join(values))))
    rows += [(fact.name.replace("_", " "), fact.text) for fact in run.facts]
    rows += [
        (name, f"{location}  (empty)" if is_empty(location) else location)
        for name, location in found.locations().items()
    ]
    if cost := found.cost():
        first, *others = format_run_cost(cost, run.state.is_final)
        rows += [("cost", first), *(("", line) for line in others)]
    goodput = format_goodput(found.goodput())
    rows += [("" if number else "goodput", line) for number, line in enumerate(goodput)]
    if restarts := found.restarts_in_place():
        rows.append(("restarts", f"{restarts} in place, of all ranks"))
    if travel := found.gradients():
        rows.append(("gradients", travel.format()))
    if slowest := found.slowest_rank():
        rows.append(("slowest rank", slowest.describe()))
    rows += [
        (f"placement {number}", format_placement(placement))
        for number, placement in enumerate(run.placements, start=1)
    ]
    rows += [(f"attempt {one.attempt}", format_attempt(one)) for one in run.attempts]
    return rows


def _finding_lines(finding: Finding) -> list[str]:
    remedy = [remedy_line(finding.remedy)] if finding.remedy else []
    return [format_finding(finding), *remedy]


def _replica(replica: Replica) -> str:
    details = [f"exit code {replica.exit_code}"] if replica.exit_code is not None else []
    details += [replica.reason] if replica.reason else []
    return f"{state_on(sys.stdout, replica.state, 10)}  {', '.join(details)}"
