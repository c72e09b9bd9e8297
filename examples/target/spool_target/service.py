"""The client of the queue: what differs from service to service."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rsctl.findings import ExitCode, Finding, JobState, RsctlError, error
from rsctl.runs.stream.events import Failure, LogEvent, MetricEvent, now
from rsctl.targets.base import Pool
from rsctl.targets.managed.service import NOT_FOUND, Fact, JobDescription, JobStatus, Measured

_SCHEME = "spool://"
_WORKER = "worker-0"


class SpoolService:
    """See JobService. The run's ID is the name of the job's folder, so there is one at most."""

    settled_after = 0.0

    def create(self, run: str, request: dict[str, Any]) -> str:
        """Make the job's folder and start its runner, unless another call has done so."""
        folder = Path(request["folder"]) / run
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        known = {name: value for name, value in request.items() if name != "env"}
        with (folder / "lock").open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # its runner is at work
                return f"{_SCHEME}{folder}"
            if not (folder / "status.json").exists():
                (folder / "job.json").write_text(json.dumps({**known, "created": now()}))
                (folder / "log").touch()
                subprocess.Popen(
                    [sys.executable, "-m", "spool_target.runner", str(folder)],
                    env={**os.environ, **request["env"]},  # secrets are not written down
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                    pass_fds=[lock.fileno()],
                )
        return f"{_SCHEME}{folder}"

    def find(self, request: Mapping[str, Any], run: str) -> str | None:
        """The job's folder is where its run's ID says."""
        folder = Path(request["folder"]) / run
        return f"{_SCHEME}{folder}" if (folder / "job.json").exists() else None

    def open(self, url: str) -> SpoolJob:
        """See JobService."""
        return SpoolJob(url)


class SpoolJob:
    """See CloudJob."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._folder = Path(url.removeprefix(_SCHEME))

    def status(self) -> JobStatus:
        """What the runner has written down; a runner that has gone has failed."""
        self._job()
        is_run = self._is_run()  # before the status: a runner writes that, then goes
        try:
            known = json.loads((self._folder / "status.json").read_bytes())
        except FileNotFoundError:
            known = {"state": "queued", "time": self._job()["created"]}
        state, started = JobState(known["state"]), known.get("started")
        if not state.is_final and not is_run:
            failure = Failure(replica=_WORKER, time=now(), exit_code=137, signal="SIGKILL")
            return JobStatus(state=JobState.FAILED, time=now(), started=started, failed=[failure])
        failed = []
        if state is JobState.FAILED:
            failed = [Failure(replica=_WORKER, time=known["time"], exit_code=known["code"])]
        return JobStatus(state=state, time=known["time"], started=started, failed=failed)

    def describe(self) -> JobDescription:
        """See CloudJob."""
        job, pools = self._job(), [Pool(role="worker", count=1)]
        name = self._folder.name
        return JobDescription(name=name, created=job["created"], pools=pools, run=name, request=job)

    def log(self, cursor: Mapping[str, Any], pools: list[Pool], created: str) -> SpoolLog:
        """See CloudJob."""
        del pools, created
        return SpoolLog(self._folder / "log", int(cursor.get("offset", 0)))

    def measure(self, after: str | None, pools: list[Pool]) -> list[MetricEvent]:
        """The queue measures nothing."""
        del after, pools
        return []

    def notice(self, line: LogEvent) -> Finding | None:
        """See CloudJob."""
        del line

    def facts(
        self, measured: Measured, plan: Mapping[str, Any], noticed: list[Finding]
    ) -> list[Fact]:
        """See CloudJob."""
        del measured, plan, noticed
        return []

    def cancel(self) -> None:
        """The runner looks for this file."""
        self._job()
        (self._folder / "cancel").touch()

    def _job(self) -> dict[str, Any]:
        try:
            job: dict[str, Any] = json.loads((self._folder / "job.json").read_bytes())
        except FileNotFoundError:
            remedy = "check its URL; a job is there as long as its folder"
            finding = error(NOT_FOUND, f"there is no job {self.url}", remedy)
            raise RsctlError(ExitCode.REFUSED, finding) from None
        return job

    def _is_run(self) -> bool:
        with (self._folder / "lock").open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False


class SpoolLog:
    """See JobLog. A line's number of bytes before it is its ID and the cursor."""

    def __init__(self, path: Path, offset: int) -> None:
        self._path, self._offset, self._has_ended = path, offset, False
        self.is_complete = False

    def read(self) -> list[LogEvent] | None:
        """All whole lines that have come; the last of an ended job is whole."""
        lines = []
        with self._path.open("rb") as log:
            log.seek(self._offset)
            for raw in log:
                if not raw.endswith(b"\n"):
                    break
                time, _, text = raw.decode(errors="replace").rstrip("\n").partition(" ")
                lines.append(LogEvent(time, _WORKER, str(self._offset), "stdout", text))
                self._offset += len(raw)
        self.is_complete = self._has_ended and not lines
        return lines

    def finish(self, ended: str) -> None:
        """Nothing comes late."""
        del ended
        self._has_ended = True

    def cursor(self) -> dict[str, Any]:
        """See JobLog."""
        return {"offset": self._offset}
