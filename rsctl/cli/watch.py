"""`rsctl watch RUN`: what `rsctl submit` shows, of a run that exists."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from rsctl.cli import options
from rsctl.cli.accepted import latest_record, once_accepted
from rsctl.cli.command import make_command
from rsctl.cli.error_events import errors_as_events
from rsctl.cli.follow import follow
from rsctl.cli.interrupts import Interrupts
from rsctl.cli.runs import find_run
from rsctl.cli.show import print_message
from rsctl.cli.tracking import wait_for_trackers
from rsctl.cli.views.next_commands import next_commands, recorded_resume_command
from rsctl.cli.views.run import make_view
from rsctl.findings import ExitCode
from rsctl.runs.stream.formatting import is_shown

_TAIL = 50


@make_command("watch", json_errors=False)
def command(
    context: typer.Context,
    run: options.RunId,
    tail: Annotated[
        Optional[int],
        typer.Option(
            "--tail",
            metavar="N",
            min=0,
            help=f"Begin with each replica's last N lines. Default: {_TAIL}; all with -o json.",
        ),
    ] = None,
    output: options.Output = "text",
) -> int:
    """Watch a run until it ends, as `rsctl submit` does.

    Ctrl-C leaves the run running.

    Exit code: the run's exit code; 9 if rsctl cannot follow the run to its end; 130 if you left it
    running.
    """
    with errors_as_events(output):
        handle = find_run(run, asks_cloud=False)
    interrupts = context.with_resource(Interrupts().listening())
    created = handle.record.created
    view = make_view(output, handle.id, handle.replicas, handle.work, created)
    context.call_on_close(view.close)
    if tail is None and output == "text":
        tail = _TAIL
    with errors_as_events(output, handle.id), once_accepted(lambda: latest_record(handle)):
        tail_of = is_shown if output == "text" else None
        code = follow(handle, view, interrupts, False, tail, tail_of)
        if code != ExitCode.INTERRUPTED:
            wait_for_trackers(handle.record)
            if output == "text":
                print_message(next_commands(handle, resume=recorded_resume_command(handle)))
        return code
