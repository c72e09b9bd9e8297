"""The log of jobs by entries:list, in good order and in bad."""

from __future__ import annotations

from typing import Any

import pytest
from google.auth.exceptions import RefreshError

from rsctl.targets.managed.emulator.rate_limiter import RequestLimit
from rsctl.targets.vertex.emulator import Behaviour
from rsctl.targets.vertex.emulator.log_store import LogRange
from tests.kit.polling import wait_until
from tests.targets.vertex.emulator.conftest import FakeNodes, Project, error, pool

ONLY = ' resource.labels.task_name="workerpool0-0"'


@pytest.fixture
def job(project: Project) -> tuple[str, FakeNodes]:
    job, nodes = project.start(pool(), pool())
    project.wait(job, "RUNNING")
    return job, nodes


def at(second: int, micros: int = 0) -> str:
    return f"2026-11-21T10:{second // 60:02}:{second % 60:02}.{micros:06}Z"


def texts(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["textPayload"] for entry in entries]


def read(project: Project, job: str, count: int, more: str = ONLY, **body: Any) -> list[Any]:
    """The entries of a job, once there are so many to be read."""

    def look() -> list[Any] | None:
        entries = project.logs(job, more, **body)
        return entries if len(entries) >= count else None

    return wait_until(look)


def test_what_an_entry_looks_like(project: Project, job: tuple[str, FakeNodes]) -> None:
    identity, nodes = job
    nodes.say("workerpool0-0", "hello", at=at(1))
    entry = read(project, identity, 1)[0]
    assert len(entry.pop("insertId")) == 12
    assert entry == {
        "logName": "projects/rehearsal/logs/workerpool0-0",
        "timestamp": at(1),
        "receiveTimestamp": at(1),
        "severity": "INFO",
        "labels": {"ml.googleapis.com/job_id/log_area": "root"},
        "resource": {
            "type": "ml_job",
            "labels": {
                "job_id": identity,
                "project_id": "rehearsal",
                "task_name": "workerpool0-0",
            },
        },
        "textPayload": "hello",
    }


@pytest.mark.parametrize(
    ("stream", "line", "severity", "payload"),
    [
        ("stdout", "plain", "INFO", "plain"),
        ("stderr", " 10%|#    | 1/10", "ERROR", " 10%|#    | 1/10"),
        ("stdout", '{"message": "m", "severity": "warning"}', "WARNING", "m"),
        ("stdout", '{"message": "m", "step": 1.0}', "INFO", {"message": "m", "step": 1}),
        (
            "stdout",
            '{"rsctl": "metrics", "loss": 0.25, "a": {"z": 1, "b": [1.5, true, null]}}',
            "INFO",
            {"a": {"b": [1.5, True, None], "z": 1}, "loss": 0.25, "rsctl": "metrics"},
        ),
        ("stdout", '{"severity": 7}', "INFO", {"severity": 7}),
        ("stdout", '{"n": NaN}', "INFO", {"n": "NaN"}),
        ("stdout", '{"broken": ', "INFO", '{"broken": '),
        ("stdout", '["a", "list"]', "INFO", '["a", "list"]'),
        ("stdout", "", "INFO", ""),
    ],
)
def test_what_becomes_of_a_line(
    project: Project,
    job: tuple[str, FakeNodes],
    stream: str,
    line: str,
    severity: str,
    payload: Any,
) -> None:
    identity, nodes = job
    nodes.say("workerpool0-0", line, stream)
    entry = read(project, identity, 1)[0]
    key = "jsonPayload" if isinstance(payload, dict) else "textPayload"
    assert (entry["severity"], entry[key]) == (severity, payload)
    if isinstance(payload, dict):  # its order is not the writer's
        assert list(entry[key]) == sorted(payload)


def test_plain_lines_may_be_messages(
    project: Project, behaviour: Behaviour, job: tuple[str, FakeNodes]
) -> None:
    behaviour.payload = "json"
    identity, nodes = job
    nodes.say("workerpool0-0", "hello", "stderr")
    payload = read(project, identity, 1)[0]["jsonPayload"]
    tag = {"tag": "workerpool0-0"}
    assert payload == {"attrs": tag, "levelname": "ERROR", "message": "hello"}


def test_a_very_long_line_is_several_entries(project: Project, job: tuple[str, FakeNodes]) -> None:
    identity, nodes = job
    line = "ä" * 200_000  # 400 kB
    nodes.say("workerpool0-0", line, at=at(1))
    parts = texts(read(project, identity, 2))
    assert "".join(parts) == line
    assert max(len(part.encode()) for part in parts) <= 256 << 10


def test_entries_in_order_page_by_page(project: Project, job: tuple[str, FakeNodes]) -> None:
    identity, nodes = job
    for second in (5, 3, 4, 4, 1, 2):
        nodes.say("workerpool0-0", str(second), at=at(second))
    expected = ["1", "2", "3", "4", "4", "5"]
    assert texts(read(project, identity, 6, pageSize=2)) == expected
    assert texts(project.logs(identity, ONLY, pageSize=5)) == expected
    down = project.logs(identity, ONLY, pageSize=4, orderBy="timestamp desc")
    assert texts(down) == expected[::-1]
    after = f'{ONLY} timestamp>="{at(2)}" AND timestamp<"{at(5)}"'
    assert texts(project.logs(identity, after)) == ["2", "3", "4", "4"]
    first = project.logs(identity, f'{ONLY} timestamp="{at(4)}"')[0]["insertId"]
    resumed = f'((timestamp="{at(4)}" AND insertId>"{first}") OR timestamp>"{at(4)}")'
    assert texts(project.logs(identity, f"{ONLY} AND {resumed}")) == ["4", "5"]


def test_no_other_jobs_entries(project: Project, job: tuple[str, FakeNodes]) -> None:
    other, nodes = project.start(pool())
    nodes.say("workerpool0-0", "of the other")
    job[1].say("workerpool0-0", "of the one")
    assert texts(read(project, job[0], 1)) == ["of the one"]
    assert texts(read(project, other, 1)) == ["of the other"]
    body = {"resourceNames": ["projects/123456789012"], "filter": 'severity=INFO "of the"'}
    both = project.session.post(f"{project.emulator.url}/v2/entries:list", json=body).json()
    assert texts(both["entries"]) == ["of the other", "of the one"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"filter": "severity=="}, "Unparseable filter"),
        ({"resourceNames": ["projects/other"]}, "resource_names must have projects/rehearsal"),
        ({"resourceNames": []}, "resource_names must have projects/rehearsal"),
        ({"pageSize": 1001}, "page_size must be from 0 to 1000"),
        ({"orderBy": "severity"}, "order_by is one of"),
        ({"pageToken": "made up"}, "page_token is not of this query"),
        ({"project": "p"}, 'Unknown name "project"'),
        ({"filter": 7}, "Invalid value at 'filter'"),
    ],
)
def test_what_is_refused(project: Project, change: dict[str, Any], message: str) -> None:
    body = {"resourceNames": ["projects/rehearsal"], **change}
    answer = project.session.post(f"{project.emulator.url}/v2/entries:list", json=body)
    assert error(answer)[:2] == (400, "INVALID_ARGUMENT")
    assert message in error(answer)[2]


def test_a_page_token_is_of_one_query(project: Project, job: tuple[str, FakeNodes]) -> None:
    body = {"resourceNames": ["projects/rehearsal"], "pageSize": 1}
    place = f"{project.emulator.url}/v2/entries:list"
    token = wait_until(lambda: project.session.post(place, json=body).json().get("nextPageToken"))
    other = {**body, "pageToken": token, "filter": "severity=INFO"}
    assert error(project.session.post(place, json=other))[0] == 400
    assert project.session.post(place, json={**body, "pageToken": token}).status_code == 200


def test_sixty_reads_a_minute(project: Project, behaviour: Behaviour) -> None:
    behaviour.log_reads, behaviour.pace = 60, 1.0
    place, body = (
        f"{project.emulator.url}/v2/entries:list",
        {"resourceNames": ["projects/rehearsal"]},
    )
    answers = [project.session.post(place, json=body) for _ in range(61)]
    assert [answer.status_code for answer in answers] == [200] * 60 + [429]
    assert error(answers[-1]) == (
        429,
        "RESOURCE_EXHAUSTED",
        "Quota exceeded for quota metric 'Read requests' and limit 'Read requests per minute' of "
        "service 'logging.googleapis.com' for consumer 'project_number:123456789012'.",
    )
    detail = answers[-1].json()["error"]["details"][0]
    assert detail["metadata"]["quota_limit"] == "ReadRequestsPerMinutePerProject"
    assert "Retry-After" not in answers[-1].headers


def test_a_minute_later_there_is_room_again() -> None:
    now = 0.0
    rate = RequestLimit(now=lambda: now)
    assert [rate.allows(2, 1.0) for _ in range(3)] == [True, True, False]
    now = 59.9
    assert not rate.allows(2, 1.0)
    now = 60.1
    assert rate.allows(2, 1.0)
    now = 61.0
    assert [rate.allows(2, 0.01) for _ in range(3)] == [True, True, False]


def test_late_entries(project: Project, behaviour: Behaviour, job: tuple[str, FakeNodes]) -> None:
    identity, nodes = job
    behaviour.late_every, behaviour.late_by = 2, 1e6
    for number in range(6):
        nodes.say("workerpool0-0", str(number), at=at(number))
    early = texts(read(project, identity, 3))
    assert early in (["0", "2", "4"], ["1", "3", "5"])
    behaviour.late_every = 0
    nodes.say("workerpool0-0", "6", at=at(6))
    assert texts(read(project, identity, 4)) == [*early, "6"]


def test_all_disorder_at_once_loses_nothing(
    project: Project, behaviour: Behaviour, job: tuple[str, FakeNodes]
) -> None:
    identity, nodes = job
    behaviour.late_every, behaviour.late_by = 3, 200.0
    behaviour.twice_every, behaviour.shuffle, behaviour.empty_every = 4, True, 5
    lines = [str(number) for number in range(300)]
    for number, line in enumerate(lines):
        nodes.say("workerpool0-0", line, at=at(number))
    entries = wait_until(lambda: _all(project, identity, lines))
    assert len(entries) > len(lines)  # some came twice
    assert texts(entries) != sorted(texts(entries), key=int)
    once = {(entry["timestamp"], entry["insertId"]): entry["textPayload"] for entry in entries}
    assert [once[key] for key in sorted(once)] == lines


def _all(project: Project, job: str, lines: list[str]) -> list[Any] | None:
    entries = project.logs(job, ONLY, pageSize=20)
    return entries if set(texts(entries)) == set(lines) else None


def test_an_expired_token_is_refused_and_a_new_one_taken(
    project: Project, job: tuple[str, FakeNodes]
) -> None:
    body = {"resourceNames": ["projects/rehearsal"]}
    place = f"{project.emulator.url}/v2/entries:list"
    assert project.session.post(place, json=body).status_code == 200
    project.emulator.access.expire()
    before = project.emulator.count("oauth2.token")
    assert project.session.post(place, json=body).status_code == 200  # google-auth tries twice
    assert project.emulator.count("oauth2.token") == before + 1


def test_expired_credentials_get_no_new_token(project: Project) -> None:
    """The calls of control still take them."""
    place = f"{project.emulator.url}/emulator"
    assert project.session.post(f"{place}/credentials:expire").status_code == 200
    assert project.session.get(f"{place}/state").status_code == 200
    with pytest.raises(RefreshError, match="invalid_grant"):
        project.session.post(
            f"{project.emulator.url}/v2/entries:list",
            json={"resourceNames": ["projects/rehearsal"]},
        )


def test_fifty_thousand_lines(project: Project, job: tuple[str, FakeNodes]) -> None:
    identity, nodes = job
    name = nodes.node("workerpool0-0").name
    total = 50_000
    for number in range(total):
        nodes.listener.line(name, "stdout", f"line {number}", at(number // 1000, number % 1000))

    def whole() -> list[str] | None:
        entries = project.emulator.log_store.entries(LogRange(identity, high=at(3000)), False)
        found = [entry.payload for entry in entries if entry.task == "workerpool0-0"]
        return found if len(found) == total else None

    assert wait_until(whole) == [f"line {number}" for number in range(total)]
    end = f'{ONLY} timestamp>="{at(47)}" AND timestamp<"{at(3000)}"'
    assert texts(project.logs(identity, end)) == [f"line {n}" for n in range(47_000, total)]
