"""What slurmrestd answers, and what rsctl makes of it; the requests are played."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rsctl.clients.endpoints import Endpoints
from rsctl.clients.google import Google
from rsctl.findings import RsctlError
from rsctl.targets.base import Unanswered
from rsctl.targets.managed.service import Unreachable
from rsctl.targets.slurm import vertex_requests
from rsctl.targets.slurm.cluster import JobRecord, Submitted
from rsctl.targets.slurm.rest import Answer, RestCluster
from rsctl.targets.slurm.rest_requests import RestRequests
from tests.kit.deferred import Deferred

requests = Deferred("requests")

SCRIPT = "#!/bin/bash\n#SBATCH --job-name=t-1\ntrue\n"
META = {"meta": {"slurm": {"cluster": "alpha"}}}


class Played:
    """Requests that have these answers, in order; an Unreachable is raised."""

    who, remedy_of_login = "slurmrestd at here", "log in again"

    def __init__(self, *answers: Answer | Unreachable) -> None:
        self.asked: list[str] = []
        self._answers = iter(answers)

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Answer:
        self.asked.append(f"{method} {path}")
        answer = next(self._answers)
        if isinstance(answer, Unreachable):
            raise answer
        return answer


def cluster(*answers: Answer | Unreachable) -> RestCluster:
    """A cluster with these answers."""
    return RestCluster("http://here:6820", Played(*answers))


def wrong(number: int = 0, text: str = "", status: int = 500) -> Answer:
    """An answer with an error of Slurm."""
    return Answer(status, {"errors": [{"error_number": number, "error": text}]})


def jobs(*rows: dict[str, Any]) -> Answer:
    """An answer with jobs."""
    return Answer(200, {**META, "jobs": list(rows)})


def number(value: int) -> dict[str, Any]:
    """A number as the API has it."""
    return {"set": True, "infinite": False, "number": value}


@pytest.mark.parametrize(
    ("answer", "code", "message", "remedy"),
    [
        (
            Answer(401, {}),
            "token",
            "slurmrestd at here does not accept the credentials: HTTP status 401",
            "log in again",
        ),
        (
            wrong(1007, "Protocol authentication error"),
            "token",
            "slurmrestd at here does not accept the credentials: Protocol authentication error",
            "log in again",
        ),
        (
            Answer(404, {}),
            "slurm-version",
            "slurmrestd at here has no API /slurm/v0.0.42",
            "use slurmrestd of Slurm 24.11 to 26.05, or ssh://LOGIN-NODE",
        ),
        (
            wrong(2010, "Invalid qos specification"),
            "qos",
            "Slurm refused to describe job 7: Invalid qos specification",
            "`sacctmgr show qos` lists them",
        ),
        (
            Answer(500, {}),
            "slurm",
            "Slurm refused to describe job 7: HTTP status 500",
            None,
        ),
        (
            wrong(9999, "odd", status=200),
            "slurm",
            "Slurm refused to describe job 7: odd",
            None,
        ),
    ],
)
def test_an_answer_that_is_an_error(
    answer: Answer, code: str, message: str, remedy: str | None
) -> None:
    with pytest.raises(RsctlError) as caught:
        cluster(answer).job(7)
    [finding] = caught.value.findings
    assert (finding.code, finding.message, finding.remedy) == (code, message, remedy)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(502, {}), "slurmrestd at here: HTTP status 502"),
        (wrong(1, "Unable to contact slurm controller"), "Unable to contact slurm controller"),
    ],
)
def test_an_answer_that_says_nothing_of_the_job(answer: Answer, reason: str) -> None:
    """It may work later; of a submission it is unknown whether there is a job."""
    with pytest.raises(Unreachable, match=reason):
        cluster(answer).job(7)
    with pytest.raises(Unanswered):
        cluster(answer).submit(SCRIPT, {}, "t-1")


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"[" * 100_000])
def test_an_answer_of_another_form_leaves_the_status(
    monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    monkeypatch.setenv("SLURM_JWT", "token")
    answer = requests.Response()
    answer.status_code, answer._content = 502, body
    slurmrestd = RestRequests("http://localhost:6820")
    slurmrestd._session = SimpleNamespace(request=lambda *_, **__: answer)
    assert slurmrestd.call("GET", "/slurm/v0.0.41/ping/") == Answer(502, {})


def test_slurmrestd_needs_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JWT", raising=False)
    with pytest.raises(RsctlError) as caught:
        RestRequests("http://127.0.0.1:1").call("GET", "/slurm")
    [finding] = caught.value.findings
    assert finding.message == "slurmrestd needs a token, and SLURM_JWT is not set"
    assert (finding.code, finding.path) == ("token", "targets.slurm.connection")
    assert "scontrol token" in str(finding.remedy)


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        ({"status": 404, "structuredBody": {"errors": []}}, Answer(404, {"errors": []})),
        ({"structuredBody": {"jobs": []}}, Answer(200, {"jobs": []})),
        ({"status": 502, "structuredBody": "gateway"}, Answer(502, {})),
    ],
)
def test_an_answer_that_vertex_passes_on(
    monkeypatch: pytest.MonkeyPatch, content: dict[str, Any], answer: Answer
) -> None:
    """Its own HTTP status is 200, whatever slurmrestd's is."""
    monkeypatch.setattr(Google, "request", lambda *_, **_options: content)
    monkeypatch.setattr(vertex_requests, "body_of", lambda body: body)
    requests = vertex_requests.VertexRequests("project/us-central1/gpus", Endpoints())
    assert requests.call("GET", "/slurm") == answer


def test_a_submission() -> None:
    answer = Answer(200, {**META, "job_id": 7})
    assert cluster(answer).submit(SCRIPT, {}, "t-1") == Submitted(7, "alpha")
    with pytest.raises(Unanswered):
        cluster(Unreachable("no route")).submit(SCRIPT, {}, "t-1")
    for answer in (
        Answer(200, {"job_id": 0, "errors": [{"error": "Invalid qos specification"}]}),
        Answer(200, {"job_id": 7, "errors": [{"description": "Invalid qos specification"}]}),
    ):
        with pytest.raises(RsctlError, match="refused to submit the job: Invalid qos"):
            cluster(answer).submit(SCRIPT, {}, "t-1")


def test_the_job_of_a_submission_whose_answer_was_lost() -> None:
    """The first of the jobs with the run's comment."""
    rows = [
        {"job_id": 9, "comment": "rsctl:t-1"},
        {"job_id": 8, "comment": "rsctl:t-1"},
        {"job_id": 7, "comment": "rsctl:t-10"},
    ]
    assert cluster(jobs(*rows)).find("rsctl:t-1") == Submitted(8, "alpha")
    assert cluster(jobs(*rows)).find("rsctl:t-2") is None


def test_a_job_as_it_is_shown() -> None:
    """Of a heterogeneous job all nodes; a state with a flag is the flag."""
    own = {
        "job_id": 7,
        "name": "t-1",
        "comment": "rsctl:t-1",
        "job_state": ["RUNNING", "COMPLETING"],
        "state_reason": "None",
        "nodes": "n[1-2]",
        "submit_time": number(100),
        "start_time": number(200),
        "end_time": {"set": True, "infinite": True, "number": 300},
        "restart_cnt": 2,
        "exit_code": {"return_code": number(1), "signal": {"id": number(9)}},
    }
    other = {"job_id": 8, "nodes": "n3", "failed_node": "n3", "job_state": ["NODE_FAIL"]}
    assert cluster(jobs(other, own)).job(7) == JobRecord(
        id=7,
        state="COMPLETING",
        name="t-1",
        comment="rsctl:t-1",
        nodes="n[1-2],n3",
        failed_node="n3",
        submitted=100.0,
        started=200.0,
        restarts=2,
        exit_code="1:9",
    )
    assert cluster(jobs(other)).job(7) is None
    assert cluster(wrong(2017, "Invalid job id specified")).job(7) is None


def test_the_expected_start_of_a_job_that_waits() -> None:
    row = {"job_id": 7, "start_time": number(200)}
    assert cluster(jobs({**row, "job_state": ["PENDING"]})).expected_start(7) == 200.0
    assert cluster(jobs({**row, "job_state": ["RUNNING"]})).expected_start(7) is None
    assert cluster(jobs()).expected_start(7) is None


@pytest.mark.parametrize("ended", [2017, 2021])
def test_a_job_that_has_ended_is_left_as_it_is(ended: int) -> None:
    requests = Played(wrong(ended), Answer(200, {}), wrong(2010, "Access/permission denied"))
    cluster = RestCluster("http://here:6820", requests)
    cluster.cancel(7)
    cluster.cancel(7)
    with pytest.raises(RsctlError, match="refused to cancel job 7: Access/permission denied"):
        cluster.cancel(7)
    assert requests.asked == ["DELETE /slurm/v0.0.42/job/7"] * 3
