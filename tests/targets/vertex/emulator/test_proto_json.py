"""The format of CustomJob, checked against Google's own protos, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
import requests
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor

from rsctl.targets.vertex.api_model import ENUMS, MESSAGES
from rsctl.targets.vertex.emulator import Behaviour
from rsctl.targets.vertex.proto_json import MalformedJson, read_job, snake, write_job
from tests.kit.deferred import Deferred
from tests.targets.vertex.emulator.conftest import IMAGE, REDUCER_IMAGE, Project, error, pool

types = Deferred("google.cloud.aiplatform_v1.types")

_SCALARS = {
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_INT64: "int64",
}


def kind_of(field: Any) -> str:
    if field.message_type and field.message_type.GetOptions().map_entry:
        return "map"
    if field.message_type and field.message_type.full_name == "google.protobuf.Duration":
        return "duration"
    if field.message_type:
        kind = field.message_type.name
    elif field.enum_type:
        kind = field.enum_type.full_name.removeprefix("google.cloud.aiplatform.v1.")
    else:
        kind = _SCALARS[field.type]
    return f"[{kind}]" if field.is_repeated else kind


def test_the_fields_are_those_of_googles_proto() -> None:
    seen: dict[str, dict[str, str]] = {}
    open_messages = [types.CustomJob.pb().DESCRIPTOR]
    while open_messages:
        message = open_messages.pop()
        outputs = {n for n, kind in MESSAGES.get(message.name, {}).items() if kind == "output"}
        fields = seen[message.name] = {}
        for field in message.fields:
            assert snake(field.json_name) == field.name
            is_output = field.json_name in outputs
            fields[field.json_name] = "output" if is_output else kind_of(field)
            inner = field.message_type
            if not is_output and inner and kind_of(field).strip("[]") == inner.name:
                open_messages.append(inner)
            if not is_output and field.enum_type:
                names = {value.name: value.number for value in field.enum_type.values}
                assert ENUMS[kind_of(field)] == names
    assert seen == MESSAGES
    assert ENUMS["JobState"] == {state.name: state.value for state in types.JobState}


FULL = {
    "displayName": "all",
    "labels": {"team": "a"},
    "encryptionSpec": {"kmsKeyName": "projects/p/locations/l/keyRings/r/cryptoKeys/k"},
    "jobSpec": {
        "workerPoolSpecs": [
            {
                "machineSpec": {
                    "machineType": "n1-standard-16",
                    "acceleratorType": "NVIDIA_TESLA_T4",
                    "acceleratorCount": 2,
                    "reservationAffinity": {
                        "reservationAffinityType": "SPECIFIC_RESERVATION",
                        "key": "compute.googleapis.com/reservation-name",
                        "values": ["projects/p/zones/z/reservations/r"],
                    },
                },
                "replicaCount": "1",
                "diskSpec": {"bootDiskType": "pd-standard", "bootDiskSizeGb": 200},
                "containerSpec": {
                    "imageUri": IMAGE,
                    "command": ["a"],
                    "args": ["b", "c"],
                    "env": [{"name": "A", "value": "1"}, {"name": "B"}],
                },
                "nfsMounts": [{"server": "10.0.0.1", "path": "/data", "mountPoint": "d"}],
            },
            {},
            pool(4, REDUCER_IMAGE)
            | {"diskSpec": {"bootDiskType": "pd-ssd", "bootDiskSizeGb": 100}},
        ],
        "scheduling": {
            "timeout": "3600s",
            "strategy": "STANDARD",
            "restartJobOnWorkerRestart": True,
        },
        "serviceAccount": "train@p.iam.gserviceaccount.com",
        "network": "projects/123/global/networks/vpc",
        "baseOutputDirectory": {"outputUriPrefix": "gs://out/runs"},
        "tensorboard": "projects/p/locations/us-central1/tensorboards/1",
        "enableWebAccess": True,
    },
}


def test_a_whole_job_comes_back_as_it_was_sent(project: Project) -> None:
    created = project.create(**FULL)
    assert {name: created[name] for name in FULL} == FULL
    assert created["name"].startswith("projects/123456789012/locations/us-central1/customJobs/")
    assert created["state"] == "JOB_STATE_QUEUED"
    json_format.ParseDict(created, types.CustomJob.pb()())
    by_number = requests.get(
        f"{project.emulator.url}/v1/{created['name']}?%24alt=json%3Benum-encoding%3Dint",
        headers={"Authorization": f"Bearer {project.session.credentials.token}"},
    ).json()
    spec = by_number["jobSpec"]
    assert spec["scheduling"]["strategy"] == 3
    assert spec["workerPoolSpecs"][0]["machineSpec"]["acceleratorType"] == 5
    assert spec["workerPoolSpecs"][1] == {}
    affinity = spec["workerPoolSpecs"][0]["machineSpec"]["reservationAffinity"]
    assert affinity["reservationAffinityType"] == 3
    json_format.ParseDict(by_number, types.CustomJob.pb()())


def test_both_spellings_numbers_and_null_are_read() -> None:
    job = {
        "display_name": "a",
        "name": "ignored",
        "labels": None,
        "job_spec": {
            "worker_pool_specs": [
                {
                    "machine_spec": {"machine_type": "n", "accelerator_type": 5},
                    "replica_count": 1,
                    "disk_spec": {"boot_disk_size_gb": "120"},
                }
            ]
        },
    }
    machine = {"machineType": "n", "acceleratorType": "NVIDIA_TESLA_T4"}
    disk = {"bootDiskSizeGb": 120}
    specs = [{"machineSpec": machine, "replicaCount": "1", "diskSpec": disk}]
    assert read_job(job) == {"displayName": "a", "jobSpec": {"workerPoolSpecs": specs}}
    assert write_job(read_job(job), False) == read_job(job)


def test_an_empty_list_or_map_is_a_field_that_is_not_set() -> None:
    container = {"imageUri": IMAGE, "command": [], "args": []}
    pools = [{"containerSpec": container, "machineSpec": {}}]
    job = {"displayName": "a", "labels": {}, "jobSpec": {"workerPoolSpecs": pools}}
    message = json_format.ParseDict(job, types.CustomJob.pb()())
    assert read_job(job) == json_format.MessageToDict(message)


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (
            {"displayName": "a", "bogus": 1},
            "Invalid JSON payload received. Unknown name \"bogus\" at 'custom_job': Cannot find "
            "field.",
        ),
        (
            {"jobSpec": {"workerPoolSpecs": [{"machineSpec": {"acceleratorType": "GPU"}}]}},
            "Invalid value at 'custom_job.job_spec.worker_pool_specs[0].machine_spec."
            "accelerator_type' (type.googleapis.com/google.cloud.aiplatform.v1.AcceleratorType), "
            '"GPU"',
        ),
        (
            {"jobSpec": {"scheduling": {"timeout": "1h"}, "enableWebAccess": "yes"}},
            "Invalid value at 'custom_job.job_spec.scheduling.timeout' (TYPE_DURATION), \"1h\"\n"
            "Invalid value at 'custom_job.job_spec.enable_web_access' (TYPE_BOOL), \"yes\"",
        ),
        (
            {"jobSpec": {"workerPoolSpecs": [{"replicaCount": "two"}]}},
            "Invalid value at 'custom_job.job_spec.worker_pool_specs[0].replica_count' "
            '(TYPE_INT64), "two"',
        ),
        (
            {"jobSpec": {"workerPoolSpecs": {}}},
            "Invalid value at 'custom_job.job_spec.worker_pool_specs', expected a list.",
        ),
        ({"labels": {"a": 1}}, "Invalid value at 'custom_job.labels' (TYPE_MAP), {'a': 1}"),
        (
            ["x"],
            "Invalid value at 'custom_job' (type.googleapis.com/google.cloud.aiplatform.v1."
            "CustomJob), ['x']",
        ),
    ],
)
def test_what_cannot_be_read(job: Any, message: str) -> None:
    with pytest.raises(MalformedJson) as caught:
        read_job(job)
    assert str(caught.value) == message
    with pytest.raises(json_format.ParseError):
        json_format.ParseDict(job, types.CustomJob.pb()())


def test_other_places_and_names(project: Project) -> None:
    get, place = project.session.get, project.url
    assert error(get(place.replace("rehearsal", "other")))[:2] == (403, "PERMISSION_DENIED")
    assert error(get(place.replace("us-central1", "us-east1")))[:2] == (400, "INVALID_ARGUMENT")
    name = "projects/rehearsal/locations/us-central1/customJobs/1"
    missing = (404, "NOT_FOUND", f"The CustomJob does not exist: {name}")
    assert error(get(f"{place}/1")) == missing
    assert error(project.session.post(f"{place}/1:cancel")) == missing
    assert error(requests.get(place))[:2] == (401, "UNAUTHENTICATED")
    assert error(project.session.post(place, data=b"{"))[:2] == (400, "INVALID_ARGUMENT")
    deep = b'{"a":' * 20_000
    assert error(project.session.post(place, data=deep))[:2] == (400, "INVALID_ARGUMENT")


def test_jobs_are_listed_by_filter_page_and_mask(project: Project) -> None:
    spec = {"workerPoolSpecs": [pool()]}
    for number in range(3):
        labels = {"rsctl-run": f"run-{number}"}
        project.create(displayName=f"j{number}", jobSpec=spec, labels=labels)

    def names(**query: Any) -> tuple[list[str], str | None]:
        answer = project.session.get(project.url, params=query).json()
        return [job["displayName"] for job in answer.get("customJobs", [])], answer.get(
            "nextPageToken"
        )

    assert names() == (["j2", "j1", "j0"], None)
    assert names(filter="labels.rsctl-run=run-1") == (["j1"], None)
    assert names(filter="labels.rsctl-run=none") == ([], None)
    first, token = names(pageSize=2)
    assert (first, names(pageSize=2, pageToken=token)) == (["j2", "j1"], (["j0"], None))
    only = project.session.get(project.url, params={"readMask": "display_name,state"}).json()
    assert [sorted(job) for job in only["customJobs"]] == [["displayName", "state"]] * 3
    assert error(project.session.get(project.url, params={"filter": "size>1"}))[0] == 400
    assert error(project.session.get(project.url, params={"pageSize": "many"}))[0] == 400


def test_sixty_submissions_a_minute(project: Project, behaviour: Behaviour) -> None:
    behaviour.submissions, behaviour.pace = 2, 1.0
    job = {"displayName": "j", "jobSpec": {"workerPoolSpecs": [pool()]}}
    assert [project.session.post(project.url, json=job).status_code for _ in range(2)] == [200] * 2
    answer = project.session.post(project.url, json=job)
    assert error(answer)[:2] == (429, "RESOURCE_EXHAUSTED")
    assert "Retry-After" not in answer.headers
    assert json.dumps(answer.json()).count("RATE_LIMIT_EXCEEDED") == 1
    assert project.session.get(project.url).status_code == 200
