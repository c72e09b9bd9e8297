"""`rsctl status RUN`: a run, its replicas, its first failure."""

from __future__ import annotations

import sys
from time import sleep

import typer

from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.results import format_location, results_of
from rsctl.cli.runs import find_run, refresh_run, shown
from rsctl.cli.show import format_finding, print_json, remedy_line
from rsctl.cli.views import failure_block, format_attempt, state_on
from rsctl.findings import ExitCode
from rsctl.runs.findings import findings_of
from rsctl.runs.gradients import gradients_of
from rsctl.runs.home import is_rehearsed
from rsctl.runs.store import Replica, Run, Store
from rsctl.stream.events import now, seconds_between
from rsctl.stream.formatting import format_duration
from rsctl.stream.gradients import Gradients
from rsctl.stream.sanitize import sanitize

_WATCH_SECONDS = 0.5


@make_command("status")
@options.errors_as_json
def command(run: options.Run, watch: options.Watch = False, output: options.Output = "text") -> int:
    """Show a run and its replicas.

    Exit code: 0; with --watch that of the run.
    """
    store = Store()
    known, _ = find_run(store, run)
    _print(store, known, output)
    if not watch:
        return int(ExitCode.SUCCEEDED)
    while not known.state.is_final:
        sleep(_WATCH_SECONDS)
        before, known = known, refresh_run(store, known)
        if known != before:
            _print(store, known, output)
    return int(known.state.exit_code)


def _print(store: Store, run: Run, output: str) -> None:
    travel = gradients_of(store, run)
    if output == "json":
        print_json({**shown(store, run), "gradients": travel, "findings": findings_of(run.run)})
    else:
        typer.echo(sanitize("\n".join(_lines(run, travel))))
    sys.stdout.flush()


def _lines(run: Run, travel: Gradients | None) -> list[str]:
    took = format_duration(seconds_between(run.created, run.ended or now()))
    why = f": {run.reason}" if run.reason else ""
    where = ", a rehearsal on this machine" if is_rehearsed(run.run) else ""
    attempt = f", attempt {run.attempt}" if run.attempt > 1 else ""
    lines = [
        f"{run.url}  {state_on(sys.stdout, run.state)}{why}",
        f"{took} since {run.created}{attempt}{where}",
    ]
    table = [(replica.replica, _replica(replica)) for replica in run.replicas]
    table += [(fact.name.replace("_", " "), fact.text) for fact in run.facts]
    table += [(name, format_location(location)) for name, location in results_of(run).items()]
    table += [("gradients", travel.format())] if travel else []
    table += [(f"attempt {each.attempt}", format_attempt(each)) for each in run.attempts]
    width = max([12, *(len(name) + 2 for name, _ in table)])
    lines += [f"  {name:<{width}}{text}".rstrip() for name, text in table]
    for finding in findings_of(run.run):
        lines += [format_finding(finding)] + (
            [remedy_line(finding.remedy)] if finding.remedy else []
        )
    return lines + failure_block(run)


def _replica(replica: Replica) -> str:
    details = [f"exit code {replica.exit_code}"] if replica.exit_code is not None else []
    details += [replica.reason] if replica.reason else []
    return f"{state_on(sys.stdout, replica.state, 10)}  {', '.join(details)}"
