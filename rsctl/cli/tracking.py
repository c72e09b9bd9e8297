"""Trackers of a run, as commands that watch or meet the run start them."""

from __future__ import annotations

from rsctl.api import Bench, RunRecord
from rsctl.cli.show import print_message

_WAIT_SECONDS = 10.0


def wait_for_trackers(run: RunRecord) -> None:
    """Wait a moment for what is under way of a run that has ended; show what is missing."""
    if run.plan.get("tracking"):
        from rsctl.results.tracking.background import wait

        for line in wait(run, _WAIT_SECONDS):
            print_message(line)


def wait_for_bench_trackers(bench: Bench) -> None:
    """Wait a moment for what is under way of a bench; show how many runs lack something."""
    behind = bench.wait_for_trackers(_WAIT_SECONDS)
    if behind:
        print_message(f"trackers lack something of {len(behind)} runs; see rsctl track RUN")


def resume_tracking(run: RunRecord) -> None:
    """Have what was missed of a run sent, in the background."""
    if run.plan.get("tracking"):
        from rsctl.results.tracking.background import resume

        resume(run)
