"""The process that manages one job of target `fake`: it outlives the command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from rsctl.findings import JobState
from rsctl.runs.folder import RunFolder
from rsctl.runs.recorder import Recorder
from rsctl.runs.store import Store
from rsctl.runs.stream.events import LogEvent, now
from rsctl.runs.stream.journal import JournalWriter
from rsctl.runs.stream.metrics import MetricReader

_WORKER = "worker-0"


class FakeJob:
    """The job of a run's folder."""

    def __init__(self, run: str) -> None:
        self._folder = RunFolder(run)
        self._description = self._folder.description()
        self._recorder = Recorder(self._folder, Store())
        self._process: subprocess.Popen[bytes] | None = None
        self._is_cancelled = False

    def run(self) -> None:
        """Run it to its end, and write down how it ended."""
        signal.signal(signal.SIGTERM, lambda *_: self._cancel())
        state, code, reason = JobState.FAILED, None, None
        try:
            code = self._run_command()
            state = JobState.FAILED if code else JobState.SUCCEEDED
        except OSError as problem:  # there is no such command
            reason = str(problem)
        if self._is_cancelled:
            self._recorder.state(JobState.CANCELLING)
            state = JobState.CANCELLED
        self._recorder.state(state, _WORKER, exit_code=code)
        self._recorder.state(state, exit_code=int(state.exit_code), reason=reason)
        self._recorder.close()

    def _run_command(self) -> int:
        metrics = MetricReader(self._description.metrics)
        with _start(self._description.request) as process:
            self._process = process
            if self._is_cancelled:
                self._cancel()
            self._recorder.state(JobState.RUNNING)
            self._recorder.state(JobState.RUNNING, _WORKER)
            log = JournalWriter(self._folder.log(_WORKER))
            for line in process.stdout or ():
                log.feed("stdout", line)
                text = line.decode(errors="backslashreplace").rstrip("\n")
                self._recorder.metrics(metrics.read(LogEvent(now(), _WORKER, "", "stdout", text)))
                self._recorder.flush_if_due()
            log.close()
            return process.wait()

    def _cancel(self) -> None:
        """SIGTERM came: end the command, now or once it has started."""
        self._is_cancelled = True
        if self._process:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)


def _start(request: Mapping[str, Any]) -> subprocess.Popen[bytes]:
    """The command, with the request's variables; secrets are in this process's environment."""
    given = {name: value for name, value in request["env"].items() if value is not None}
    return subprocess.Popen(
        ["nice", "-n", str(request["niceness"]), *request["command"]],
        env={**os.environ, **given},
        cwd=request["folder"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


if __name__ == "__main__":
    FakeJob(sys.argv[1]).run()
