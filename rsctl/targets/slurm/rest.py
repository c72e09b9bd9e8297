"""A cluster by its REST API, v0.0.42 (Slurm 24.11 to 26.05)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Optional, Protocol

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.targets.base import Unanswered
from rsctl.targets.managed.service import Unreachable
from rsctl.targets.slurm import shared_files
from rsctl.targets.slurm.cluster import FileState, JobRecord, Part, Submitted
from rsctl.targets.slurm.errors import UNANSWERED, refusal
from rsctl.targets.slurm.rest_job import submission

API = "/slurm/v0.0.42"
_ENDED = 2021  # slurm_errno.h, ESLURM_ALREADY_DONE
_NO_JOB = 2017  # ESLURM_INVALID_JOB_ID
_AUTHENTICATION = frozenset({1007, 2001, 2002})


class Answer(NamedTuple):
    """An answer of slurmrestd: its HTTP status, and its body."""

    status: int
    body: dict[str, Any]


class Requests(Protocol):
    """Calls to slurmrestd."""

    who: str
    """Who answers, for people."""
    remedy_of_login: str
    """The remedy if the credentials are refused."""

    def call(self, method: str, path: str, body: Optional[dict[str, Any]] = None) -> Answer:
        """The answer to a request. Raises Unreachable if there is none, RsctlError if it cannot be
        sent.
        """


class RestCluster:
    """See Cluster. Files are read where this machine sees the shared folder."""

    def __init__(self, connection: str, requests: Requests) -> None:
        self.connection = connection
        self._requests = requests

    def submit(self, script: str, environ: Mapping[str, str], name: str) -> Submitted:
        """See Cluster."""
        body = submission(script, environ, "/")
        try:
            answer = self._requests.call("POST", f"{API}/job/submit", body)
        except Unreachable as problem:
            lost = RsctlError(ExitCode.ENVIRONMENT, error("network", str(problem)))
            raise Unanswered(name, lost) from None
        job = answer.body.get("job_id")
        if answer.status == 200 and isinstance(job, int) and job and not _errors(answer.body):
            return Submitted(job, _cluster(answer.body))
        text = _text(answer.body)
        refused = self._problem(answer, "submit the job")
        if isinstance(refused, Unreachable):
            raise Unanswered(name, refusal(text or f"HTTP status {answer.status}", "submit"))
        raise refused

    def find(self, comment: str) -> Submitted | None:
        """See Cluster."""
        answer = self.get("/jobs/", "list jobs")
        jobs = [job for job in answer.get("jobs", ()) if job.get("comment") == comment]
        numbers = [int(job["job_id"]) for job in jobs]
        return Submitted(min(numbers), _cluster(answer)) if numbers else None

    def job(self, job: int) -> JobRecord | None:
        """See Cluster."""
        answer = self._requests.call("GET", f"{API}/job/{job}")
        if any(problem.get("error_number") == _NO_JOB for problem in _errors(answer.body)):
            return None
        if answer.status != 200 or _errors(answer.body):
            raise self._problem(answer, f"describe job {job}")
        rows = [row for row in answer.body.get("jobs", ()) if isinstance(row, dict)]
        own = [row for row in rows if row.get("job_id") == job]
        return _record(own[0], [row for row in rows if row is not own[0]]) if own else None

    def cancel(self, job: int) -> None:
        """See Cluster."""
        answer = self._requests.call("DELETE", f"{API}/job/{job}")
        numbers = {problem.get("error_number") for problem in _errors(answer.body)}
        if answer.status != 200 and not numbers & {_ENDED, _NO_JOB}:
            raise self._problem(answer, f"cancel job {job}")

    def expected_start(self, job: int) -> float | None:
        """See Cluster. The start time of a pending job is the expected one."""
        record = self.job(job)
        return record.started if record is not None and record.state == "PENDING" else None

    def has_files(self, folder: str) -> bool:
        """See Cluster."""
        return os.path.isdir(os.path.dirname(folder))

    def files(self, folder: str) -> list[FileState] | None:
        """See Cluster."""
        return shared_files.list_files(folder)

    def read(self, folder: str, parts: Iterable[Part]) -> dict[str, bytes]:
        """See Cluster."""
        return shared_files.read_parts(folder, parts)

    def get(self, path: str, doing: str) -> dict[str, Any]:
        """The body of a GET. Raises Unreachable and RsctlError."""
        answer = self._requests.call("GET", f"{API}{path}")
        if answer.status != 200 or _errors(answer.body):
            raise self._problem(answer, doing)
        return answer.body

    def _problem(self, answer: Answer, doing: str) -> Exception:
        """Unreachable, or the error, for an answer that is not a success."""
        numbers = {problem.get("error_number") for problem in _errors(answer.body)}
        if answer.status in (401, 511) or numbers & _AUTHENTICATION:
            text = _text(answer.body) or f"HTTP status {answer.status}"
            message = f"{self._requests.who} does not accept the credentials: {text}"
            remedy = self._requests.remedy_of_login
            finding = error("token", message, remedy, "targets.slurm.connection")
            return RsctlError(ExitCode.ENVIRONMENT, finding)
        text = _text(answer.body)
        if UNANSWERED.search(text) or (answer.status >= 502 and not text):
            return Unreachable(f"{self._requests.who}: {text or f'HTTP status {answer.status}'}")
        if answer.status == 404 and not _errors(answer.body):
            message = f"{self._requests.who} has no API {API}"
            remedy = "use slurmrestd of Slurm 24.11 to 26.05, or ssh://LOGIN-NODE"
            return RsctlError(
                ExitCode.REFUSED,
                error("slurm-version", message, remedy, "targets.slurm.connection"),
            )
        return refusal(text or f"HTTP status {answer.status}", doing)


def _errors(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [each for each in body.get("errors") or () if isinstance(each, dict)]


def _text(body: Mapping[str, Any]) -> str:
    texts = [str(each.get("error") or each.get("description") or "") for each in _errors(body)]
    return "; ".join(dict.fromkeys(filter(None, texts)))


def _cluster(body: Mapping[str, Any]) -> str:
    meta = body.get("meta") or {}
    return str((meta.get("slurm") or {}).get("cluster") or "slurm")


def _record(row: dict[str, Any], others: list[dict[str, Any]]) -> JobRecord:
    code = row.get("exit_code") or {}
    number = _value(code.get("return_code")) or 0
    signal = _value((code.get("signal") or {}).get("id")) or 0
    nodes = [str(each.get("nodes") or "") for each in (row, *others)]
    reason = str(row.get("state_description") or row.get("state_reason") or "")
    return JobRecord(
        id=int(row["job_id"]),
        state=_state(row),
        name=str(row.get("name") or ""),
        reason="" if reason == "None" else reason,
        comment=str(row.get("comment") or ""),
        nodes=",".join(filter(None, nodes)),
        failed_node=next((str(n) for each in (row, *others) if (n := each.get("failed_node"))), ""),
        submitted=_value(row.get("submit_time")),
        started=_value(row.get("start_time")),
        ended=_value(row.get("end_time")),
        restarts=int(row.get("restart_cnt") or 0),
        exit_code=f"{number:g}:{signal:g}",
    )


def _state(row: Mapping[str, Any]) -> str:
    """The state; a flag such as COMPLETING or CONFIGURING comes after it, and counts before it."""
    states = row.get("job_state") or [""]
    states = [states] if isinstance(states, str) else states
    flags = [each for each in states if each in ("COMPLETING", "CONFIGURING", "REQUEUE_HOLD")]
    return str((flags or states)[0])


def _value(given: Any) -> Optional[float]:
    """A number of the API, which may be {set, infinite, number}; None if it is not set, or 0."""
    if isinstance(given, Mapping):
        given = given.get("number") if given.get("set") and not given.get("infinite") else None
    return float(given) if isinstance(given, (int, float)) and given else None
