"""One job: its status, description and log, and its cancellation."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Optional

from msgspec.structs import replace

from rsctl.findings import Finding, JobState, warning
from rsctl.runs.records import NODE_FAILED
from rsctl.runs.stream.events import LogEvent, MetricEvent, now
from rsctl.targets.base import Pool
from rsctl.targets.managed.service import NOT_FOUND, Fact, JobDescription, JobStatus, Measured
from rsctl.targets.slurm.cluster import Cluster, JobRecord, Part, refused
from rsctl.targets.slurm.directives import COMMENT
from rsctl.targets.slurm.job_address import JobAddress
from rsctl.targets.slurm.logs import SlurmLog
from rsctl.targets.slurm.states import States, pools_of, read_states
from rsctl.targets.slurm.status import event_time, status_of

_MOST_STATES = 1 << 18
_GOING = ("PENDING", "CONFIGURING", "RUNNING")
_SEEN_SECONDS = 90.0
"""How long an NFS client may not see a folder that another machine has made."""

_UNSTARTED = (
    "its batch script did not run: a start file of bash, such as ~/.bash_profile, has ended it or "
    "has replaced it by `exec`"
)
_UNPREPARED = (
    "it ended before its batch script began on {}: it was cancelled, or the prolog of a node has "
    "failed"
)


class SlurmJob:
    """A job by its address; see CloudJob."""

    def __init__(self, address: JobAddress, cluster: Cluster) -> None:
        self.url = address.url
        self._address, self._cluster = address, cluster
        self._unseen_since: float | None = None

    def status(self) -> JobStatus:
        """See CloudJob."""
        states = self._states()
        record = self._record(states)
        if record is None or record.state not in _GOING:
            states = self._states()  # what the job has written since before its end
        expected = None
        if record is not None and record.state == "PENDING":
            expected = self._cluster.expected_start(record.id)
        status = status_of(record, states, expected)
        if status is None:
            raise self._unknown()
        if status.state is not JobState.QUEUED and not self._sees_files():
            status = replace(status, findings=[*status.findings, self._unreadable()])
        elif record is not None and status.state.is_final and states.started is None:
            status = self._without_start(record, status)
        return status

    def _without_start(self, record: JobRecord, status: JobStatus) -> JobStatus:
        """The status of a job whose batch script has not made its folder: its log may say why."""
        if self._cluster.files(self._address.folder) is not None:
            return status
        shared, _, run = self._address.folder.rpartition("/")
        name = f"{run}.batch.log"
        content = self._cluster.read(shared, [Part(name, 0, _MOST_STATES)]).get(name, b"")
        lines = [line for line in content.decode(errors="replace").splitlines() if line.strip()]
        own = [line.removeprefix("rsctl: ") for line in lines if line.startswith("rsctl: ")]
        last = f": {lines[-1][:300]}" if lines else ""
        if record.state == "FAILED" and lines:
            reason = own[0] if own else f"{status.reason} before its batch script began{last}"
            return replace(status, reason=reason)
        if record.state == "CANCELLED" and record.nodes and record.exit_code == "0:0":
            reason = f"{_UNPREPARED.format(record.nodes)}{last}"
            remedy = "`sinfo --list-reasons` shows drained nodes; submit it again"
            lost = warning(NODE_FAILED, reason, remedy)  # with this code a bench repeats the run
            return replace(status, reason=reason, findings=[*status.findings, lost])
        # Accounting has no comment. It knows a job for so long that its folder may be removed.
        if record.state != "COMPLETED" or not record.comment:
            return status
        self._unseen_since = self._unseen_since or min(record.ended or time.time(), time.time())
        if time.time() - self._unseen_since < _SEEN_SECONDS:
            reason = f"it has ended, and {shared} does not show its folder yet"
            return replace(status, state=JobState.RUNNING, reason=reason)
        return replace(status, state=JobState.FAILED, reason=f"{_UNSTARTED}{last}")

    def describe(self) -> JobDescription:
        """See CloudJob."""
        states = self._states()
        record = self._record(states)
        if record is None and states.started is None:
            raise self._unknown()
        created = event_time(record.submitted) if record is not None else states.started
        return JobDescription(
            name=self._address.run,
            created=created or now(),
            pools=pools_of(states),
            run=self._address.run,
            request={"connection": self._address.connection, "folder": self._address.folder},
        )

    def log(self, cursor: Mapping[str, Any], pools: list[Pool], created: str) -> SlurmLog:
        """See CloudJob."""
        return SlurmLog(self._cluster, self._address.folder, cursor)

    def measure(self, after: Optional[str], pools: list[Pool]) -> list[MetricEvent]:
        """Slurm measures nothing that its accounting does not."""
        return []

    def notice(self, line: LogEvent) -> Finding | None:
        """A line of the log has no facts about Slurm."""
        return None

    def facts(
        self, measured: Measured, plan: Mapping[str, Any], noticed: list[Finding]
    ) -> list[Fact]:
        """See CloudJob."""
        return []

    def cancel(self) -> None:
        """See CloudJob. scancel ends all components of a heterogeneous job."""
        record = self._record(self._states())
        if record is not None:
            self._cluster.cancel(record.id)

    def _states(self) -> States:
        content = (
            self._cluster.read(self._address.folder, [Part("states", 0, _MOST_STATES)])
            if self._sees_files()
            else {}
        )
        return read_states(content.get("states", b"").decode(errors="replace"))

    def _record(self, states: States) -> JobRecord | None:
        """The job of this run: a second submission's ends at once, in favour of the first one.

        A job with the comment of another run is another cluster's, or came after the IDs had
        started again; so is a job without rsctl's comment that has another name. A cluster may
        replace comments (job_submit plugins).
        """
        number = self._address.id
        cluster, _, owner = (states.owner or "").rpartition("/")
        if cluster and owner.isdecimal() and cluster in (self._address.cluster, "slurm"):
            number = int(owner)
        record = self._cluster.job(number)
        if record is None:
            return None
        run, comment = self._address.run, record.comment.split(",")[0]
        is_named = not comment.startswith(COMMENT) and record.name in ("", run)
        is_ours = comment == f"{COMMENT}{run}" or is_named
        return record if is_ours else None

    def _sees_files(self) -> bool:
        return self._cluster.has_files(self._address.folder)

    def _unknown(self) -> Exception:
        address = self._address
        message = f"{address.connection} knows no job {address.id} of run {address.run}"
        remedy = "check its URL; Slurm forgets a job some minutes after its end (MinJobAge)"
        return refused(NOT_FOUND, message, remedy)

    def _unreadable(self) -> Finding:
        shared = self._address.folder.rpartition("/")[0]
        message = (
            f"the log cannot be read: {self._address.connection} gives no access to files, and "
            f"{shared} does not exist on this machine"
        )
        remedy = (
            f"mount {shared} on this machine, or set targets.slurm.connection: ssh://LOGIN-NODE"
        )
        return warning("log-unreadable", message, remedy, "targets.slurm.connection")
