"""Starts the trackers of runs for commands that watch or update the runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rsctl.cli.show import print_message

if TYPE_CHECKING:
    from rsctl.api import Bench, RunRecord

_WAIT_SECONDS = 10.0


def wait_for_trackers(run: RunRecord) -> None:
    """Wait briefly for the trackers of a run that has ended; show the ones that are incomplete."""
    if run.plan.get("tracking"):
        from rsctl.results.tracking.background import resume, wait

        resume(run)  # the process that sends it may have been killed
        for line in wait(run, _WAIT_SECONDS):
            print_message(line)


def wait_for_bench_trackers(bench: Bench) -> None:
    """Wait briefly for the trackers of a bench; show the number of incomplete runs."""
    behind = bench.wait_for_trackers(_WAIT_SECONDS)
    if behind:
        print_message(
            f"{len(behind)} runs have data that their trackers have not received; to send "
            "it: rsctl track RUN"
        )
    if bench.record.spec.get("notify"):
        from rsctl.results.tracking.background import unsent_ends

        for line in unsent_ends(bench.id):
            print_message(line)


def resume_tracking(run: RunRecord) -> None:
    """Send a run's unsent data in the background; show messages that were not sent, once."""
    if run.plan.get("tracking"):
        from rsctl.results.tracking.background import new_problems, resume

        resume(run)
        for line in new_problems(run):
            print_message(line)


def show_missing_messages(bench: str) -> None:
    """Show the messages about a regression that could not be sent."""
    from rsctl.results.tracking.background import wait_regressed

    for line in wait_regressed(bench):
        print_message(line)
