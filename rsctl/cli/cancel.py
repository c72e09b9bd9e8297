"""`rsctl cancel RUN`: end a run and see that it ends."""

from __future__ import annotations

from time import monotonic, sleep

from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.runs import find_run, refresh_run, shown
from rsctl.cli.show import print_json, print_message
from rsctl.findings import ExitCode, JobState, RsctlError, error
from rsctl.runs.store import Run, Store
from rsctl.targets.base import Target

_WAIT_SECONDS = 60.0
_ASK_SECONDS = 2.0
_POLL_SECONDS = 0.05


@make_command("cancel")
@options.errors_as_json
def command(run: options.Run, output: options.Output = "text") -> int:
    """End a run.

    Exit code: 0 if the run has ended or is shutting down, 6 if it goes on after a minute.
    """
    store = Store()
    known, target = find_run(store, run)
    if known.state.is_final:
        print_message(f"{known.run} has ended already: {known.state.value}")
    else:
        known = _cancel(store, target, known)
        print_message(f"{known.run} {known.state.value}")
    if output == "json":
        print_json(shown(store, known))
    return int(ExitCode.SUCCEEDED)


def _cancel(store: Store, target: Target, run: Run) -> Run:
    deadline = monotonic() + _WAIT_SECONDS
    ask_at = 0.0
    while monotonic() < deadline:
        if monotonic() >= ask_at:  # a supervisor that is just being started may miss the first
            target.cancel(run.run)
            ask_at = monotonic() + _ASK_SECONDS
        run = refresh_run(store, run)
        if run.state.is_final:
            return run
        sleep(_POLL_SECONDS)
    if (
        run.state is JobState.CANCELLING
    ):  # a cloud gives jobs longer to shut down than anybody waits
        return run
    raise RsctlError(
        ExitCode.TIMED_OUT,
        error("cancel", f"{run.run} has not ended after {_WAIT_SECONDS:g} s", "try again"),
    )
