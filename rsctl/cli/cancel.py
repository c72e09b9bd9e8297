"""`rsctl cancel RUN`: cancel a run and wait until it ends."""

from __future__ import annotations

from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.runs import find_run
from rsctl.cli.show import print_json, print_message
from rsctl.findings import ExitCode

_WAIT_SECONDS = 60.0


@make_command("cancel")
@options.errors_as_json
def command(run: options.RunId, output: options.Output = "text") -> int:
    """Cancel a run.

    Exit code: 0 if the run has ended or is shutting down, 6 if it is still running after a minute.
    """
    handle = find_run(run)
    if handle.state.is_final:
        print_message(f"{handle.id} has already ended: {handle.state.value}")
    else:
        handle.cancel(_WAIT_SECONDS)
        print_message(f"{handle.id} {handle.state.value}")
    if output == "json":
        print_json(handle.to_dict())
    return int(ExitCode.SUCCEEDED)
