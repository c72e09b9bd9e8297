"""Trackers of a run, as commands that watch or meet the run start them."""

from __future__ import annotations

import subprocess
from contextlib import suppress

from rsctl.api import RunRecord, Store
from rsctl.bench.records import Benches
from rsctl.cli.show import print_message

_WAIT_SECONDS = 10.0


def wait_for_trackers(run: RunRecord) -> None:
    """Wait a moment for what is under way of a run that has ended; show what is missing."""
    if run.plan.get("tracking"):
        from rsctl.tracking.background import wait

        for line in wait(run, _WAIT_SECONDS):
            print_message(line)


class BenchTracking:
    """Starts the process that sends the runs of a bench; nothing if its job has no trackers."""

    def __init__(self, bench: str, is_tracked: bool) -> None:
        self._bench = bench
        self._process: subprocess.Popen[bytes] | None = None
        if is_tracked:
            from rsctl.tracking.background import start_bench

            with suppress(OSError):
                self._process = start_bench(bench)

    def finish(self) -> None:
        """Wait a moment for what is under way; show how many runs lack something."""
        if self._process is None:
            return
        from rsctl.tracking.cursor import unfinished

        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_WAIT_SECONDS)
        store = Store()
        bench = Benches(store).get(self._bench)
        runs = [store.get(trial.run) for trial in bench.trials] if bench else []
        behind = [run.run for run in runs if run and unfinished(run)]
        store.close()
        if behind:
            print_message(f"trackers lack something of {len(behind)} runs; see rsctl track RUN")


def resume_tracking(run: RunRecord) -> None:
    """Have what was missed of a run sent, in the background."""
    if run.plan.get("tracking"):
        from rsctl.tracking.background import resume

        resume(run)
