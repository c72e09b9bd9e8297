"""What Google's clients send is understood; what cannot be answered is refused, never empty."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rsctl.targets.vertex.emulator.log_filter import LoggingFilter
from tests.targets.vertex.emulator.conftest import IMAGE, Project, error, pool

REAL = Path(__file__).parents[3] / "fixtures" / "real" / "google_cloud_logging_filters.json"
NOT_EMULATED = (501, "UNIMPLEMENTED")


def ask(project: Project, wanted: str) -> Any:
    body = {"resourceNames": ["projects/rehearsal"], "filter": wanted}
    return project.session.post(f"{project.emulator.url}/v2/entries:list", json=body)


@pytest.mark.parametrize("text", json.loads(REAL.read_text())["filters"])
def test_times_as_googles_client_writes_them(text: str) -> None:
    assert LoggingFilter(text, "p").span.low[:10] in ("2026-11-21", "2026-01-01")


def test_functions_of_filters(project: Project) -> None:
    book = project.emulator.log_store
    for task, text in (("workerpool0-0", "Hello wide world"), ("workerpool1-0", "helloo")):
        book.write("7", task, "stdout", text)
    for wanted in (
        'SEARCH("world hello")',
        'SEARCH(textPayload, "wide")',
        'log_id("workerpool0-0")',
    ):
        answer = ask(project, wanted)
        assert [e["textPayload"] for e in answer.json()["entries"]] == ["Hello wide world"], wanted


@pytest.mark.parametrize(
    "wanted",
    [
        'labels.unknown="x"',
        'NOT resource.labels.zone="x"',
        "httpRequest.status=200 OR insertId=a",
        "sample(insertId, 0.1)",
        'textPayload=regexp("x")',
        "SEARCH('\"two words\"')",
    ],
)
def test_a_filter_that_cannot_be_answered(project: Project, wanted: str) -> None:
    status, code, message = error(ask(project, wanted))
    assert ((status, code), "not emulated by rsctl's emulator" in message) == (NOT_EMULATED, True)


def test_calls_that_are_not_emulated(project: Project) -> None:
    session, place = project.session, project.url
    for answer in (
        session.patch(f"{place}/1"),
        session.get(place.replace("customJobs", "endpoints")),
        session.post(f"{project.emulator.url}/v2/entries:write", json={}),
    ):
        assert error(answer)[:2] == NOT_EMULATED


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ({"pageSize": "x"}, 400, "Invalid value at 'page_size' (TYPE_INT32), \"x\""),
        ({"pageSize": "-1"}, 400, "page_size must be from 0 to 1000"),
        ({"pageToken": "x"}, 400, "page_token is not one that was given"),
        ({"readMask": "nme"}, 400, 'Invalid field mask: "nme" is not a field of CustomJob'),
        ({"readMask": "jobSpec.scheduling"}, 501, 'the field mask "jobSpec.scheduling" is not'),
        (
            {"foo": "1"},
            400,
            'Invalid JSON payload received. Unknown name "foo": Cannot bind query parameter. Field '
            "'foo' could not be found in request message.",
        ),
        ({"fields": "name"}, 501, "the parameter fields is not emulated by rsctl's emulator"),
        ({"page_size": "-1"}, 400, "page_size must be from 0 to 1000"),
        ({"filter": 'f("x")'}, 400, "Invalid filter: there is no function f()"),
    ],
)
def test_a_list_of_jobs_in_the_services_words(
    project: Project, query: dict[str, str], status: int, message: str
) -> None:
    project.create(displayName="j", jobSpec={"workerPoolSpecs": [pool()]})
    answer = project.session.get(project.url, params=query)
    assert error(answer)[0] == status
    assert error(answer)[2].startswith(message)


def test_zeros_are_what_is_left_out(project: Project) -> None:
    """As in proto3; a page of size 0 has the default size."""
    plain = pool()
    del plain["replicaCount"]
    zero = {**plain, "replicaCount": 0, "diskSpec": {"bootDiskSizeGb": 0, "bootDiskType": ""}}
    shown = [
        project.create(displayName="j", jobSpec={"workerPoolSpecs": [one]})["jobSpec"]
        for one in (plain, zero)
    ]
    assert shown[0] == shown[1]
    assert shown[0]["workerPoolSpecs"][0]["replicaCount"] == "1"
    assert shown[0]["workerPoolSpecs"][0]["containerSpec"] == {"imageUri": IMAGE}
    assert len(project.session.get(project.url, params={"pageSize": 0}).json()["customJobs"]) == 2


def test_a_parameter_that_a_call_does_not_have(project: Project) -> None:
    job = project.create(displayName="j", jobSpec={"workerPoolSpecs": [pool()]})["name"]
    session, place = project.session, f"{project.url}/{job.rpartition('/')[2]}"
    for answer in (
        session.get(place, params={"view": "FULL"}),
        session.post(f"{place}:cancel", params={"force": "true"}),
        session.post(project.url, params={"validateOnly": "true"}, json={}),
        session.post(f"{project.emulator.url}/v2/entries:list", params={"filter": "x"}, json={}),
    ):
        assert error(answer)[:2] == (400, "INVALID_ARGUMENT")
        assert "Cannot bind query parameter" in error(answer)[2]
    assert session.get(place, params={"$alt": "json", "prettyPrint": "false"}).status_code == 200
