"""`rsctl cancel RUN`: cancel a run and wait until it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rsctl import api
from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.runs import find_run
from rsctl.cli.show import print_json, print_message
from rsctl.cli.silence import silence_told
from rsctl.cli.tracking import resume_tracking
from rsctl.findings import ExitCode, JobState, RsctlError, error

if TYPE_CHECKING:
    from rsctl.api import Run

_WAIT_SECONDS = 60.0


@make_command("cancel")
@options.errors_as_json
def command(run: options.RunId, output: options.Output = "text") -> int:
    """Cancel a run.

    Exit code: 0 if the run has ended or is shutting down, 6 if it is still running after a minute.
    """
    handle = _find(run)
    if handle.state.is_final:
        print_message(f"{handle.id} has already ended: {handle.state.value}")
    else:
        _cancel(handle)
        is_own = handle.state in (JobState.CANCELLING, JobState.CANCELLED)
        print_message(f"{handle.id} {'' if is_own else 'has ended: '}{handle.state.value}")
    if output == "json":
        print_json(handle.to_dict())
    return int(ExitCode.SUCCEEDED)


def _find(reference: str) -> Run:
    """The run; one in a cloud is not updated, since the cloud may take long and the request comes
    first. On this machine it may have ended by itself. Raises RsctlError if it does not exist.
    """
    if not api.awaited_clouds(reference):
        return find_run(reference)
    run = api.run(reference, is_reconciled=False)
    resume_tracking(run.record)
    return run


def _cancel(run: Run) -> None:
    """Cancel a run; an interruption says whether the job received it. Raises RsctlError."""
    try:
        with silence_told(run.id, f": {run.id} may not be cancelled", (JobState.CANCELLING,)):
            run.cancel(_WAIT_SECONDS)
    except RsctlError:
        find_run(run.id)  # which shows why its state may be unknown
        raise
    except KeyboardInterrupt:
        is_received = run.reload().state is JobState.CANCELLING or run.state.is_final
        message = f"{run.id} is being cancelled"
        message = message if is_received else f"whether {run.id} is cancelled is unknown"
        finding = error("interrupted", f"interrupted: {message}", f"rsctl status {run.id}")
        raise RsctlError(ExitCode.INTERRUPTED, finding) from None
