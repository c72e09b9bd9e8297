"""`rsctl cancel RUN`: cancel a run and wait until it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rsctl import api
from rsctl.cli import options
from rsctl.cli.accepted import latest_record
from rsctl.cli.command import make_command
from rsctl.cli.runs import find_run
from rsctl.cli.show import print_json, print_message
from rsctl.cli.silence import silence_told
from rsctl.findings import ExitCode, JobState, RsctlError, error

if TYPE_CHECKING:
    from rsctl.api import Run

_WAIT_SECONDS = 60.0


@make_command("cancel")
def command(run: options.RunId, output: options.Output = "text") -> None:
    """Cancel a run.

    Exit code: 0 if the run has ended or is shutting down, 6 if it is still running after a minute.
    """
    handle = find_run(run, asks_cloud=False)  # which may take long: the request comes first
    if handle.state.is_final:
        print_message(f"{handle.id} has already ended: {handle.state.value}")
    else:
        _cancel(handle)
        is_own = handle.state in (JobState.CANCELLING, JobState.CANCELLED)
        print_message(f"{handle.id} {'' if is_own else 'has ended: '}{handle.state.value}")
    if output == "json":
        print_json(handle.to_dict())


def _cancel(run: Run) -> None:
    """Cancel a run; an interruption says whether the job received it, and an error that the job
    continues. Raises RsctlError.
    """
    try:
        with silence_told(
            run.id, f": whether {run.id} is cancelled is not known yet", (JobState.CANCELLING,)
        ):
            run.cancel(_WAIT_SECONDS)
    except RsctlError as problem:
        if problem.exit_code == ExitCode.TIMED_OUT:
            find_run(run.id)  # which shows why its state may be unknown
        record = latest_record(run)
        if isinstance(problem, api.ResultUnknown) or not record.is_located:
            raise
        findings = api.ResultUnknown(record, *problem.findings).findings
        raise RsctlError(problem.exit_code, *findings) from None
    except KeyboardInterrupt:
        is_received = run.reload().state is JobState.CANCELLING or run.state.is_final
        message = f"{run.id} is being cancelled"
        message = message if is_received else f"whether {run.id} is cancelled is unknown"
        finding = error("interrupted", f"interrupted: {message}", f"rsctl status {run.id}")
        raise RsctlError(ExitCode.INTERRUPTED, finding) from None
