"""What the emulated AWS services refuse, seen by unmodified boto3."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import boto3
import pytest
import requests
from botocore.config import Config
from botocore.exceptions import ParamValidationError

from tests.kit.builders.codebuild import CodeBuildEmulator
from tests.kit.builders.commands import GrowingLog

from .conftest import refused

PROJECT = {
    "name": "p1",
    "source": {"type": "NO_SOURCE", "buildspec": "version: 0.2"},
    "artifacts": {"type": "NO_ARTIFACTS"},
    "environment": {
        "type": "LINUX_CONTAINER",
        "image": "aws/codebuild/standard:7.0",
        "computeType": "BUILD_GENERAL1_SMALL",
    },
    "serviceRole": "arn:aws:iam::123456789012:role/build",
}


def client(service: str, **config: Any) -> Any:
    given = Config(retries={"total_max_attempts": 1}, **config)
    return boto3.Session(region_name="us-east-1").client(service, config=given)


def test_only_its_own_key_opens_it(aws: CodeBuildEmulator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "guessed")
    message = "The security token included in the request is invalid."
    service = client("codebuild")
    assert refused(service.create_project, **PROJECT) == ("UnrecognizedClientException", message)
    put = client("s3").put_object
    assert refused(put, Bucket="staging", Key="k", Body=b"")[0] == "InvalidAccessKeyId"
    assert requests.get(aws.url + "/staging/k").status_code == 403
    assert (aws.projects, aws.objects.names("staging")) == ({}, [])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"name": "has space"},
            "Value 'has space' at 'name' failed to satisfy constraint: must match "
            "[A-Za-z0-9][A-Za-z0-9\\-_]{1,149}",
        ),
        (
            {"artifacts": {"type": "NONE"}},
            "Value 'NONE' at 'artifacts.type' failed to satisfy constraint: must be one of "
            "[CODEPIPELINE, S3, NO_ARTIFACTS]",
        ),
        (
            {"timeoutInMinutes": 9999},
            "Value at 'timeoutInMinutes' failed to satisfy constraint: at most 2160",
        ),
        (
            {"source": {"type": "NO_SOURCE"}},
            "Buildspec must be specified when using NO_SOURCE",
        ),
    ],
)
def test_what_botocore_itself_lets_pass(
    aws: CodeBuildEmulator, change: dict[str, Any], message: str
) -> None:
    create = client("codebuild").create_project
    assert refused(create, **{**PROJECT, **change}) == ("InvalidInputException", message)


def test_what_is_required_is_asked_for(aws: CodeBuildEmulator) -> None:
    create = client("codebuild", parameter_validation=False).create_project
    wanted = {name: value for name, value in PROJECT.items() if name != "serviceRole"}
    assert refused(create, **wanted)[0] == "InvalidInputException"
    with pytest.raises(ParamValidationError):
        client("codebuild").create_project(**wanted)


def test_a_project_is_made_once(aws: CodeBuildEmulator) -> None:
    create = client("codebuild").create_project
    assert create(**PROJECT)["project"]["name"] == "p1"
    assert refused(create, **PROJECT) == (
        "ResourceAlreadyExistsException",
        "Project already exists: arn:aws:codebuild:us-east-1:123456789012:project/p1",
    )


def test_builds_that_cannot_start(aws: CodeBuildEmulator) -> None:
    service = client("codebuild")
    start = {"sourceTypeOverride": "S3", "sourceLocationOverride": "staging/none"}
    spec = {"buildspecOverride": "version: 0.2\nphases: {build: {commands: ['true']}}"}
    assert refused(service.start_build, projectName="none", **start, **spec)[0] == (
        "ResourceNotFoundException"
    )
    service.create_project(**PROJECT)
    wrong = {"buildspecOverride": "phases: ["}
    assert refused(service.start_build, projectName="p1", **start, **wrong)[1].startswith(
        "YAML_FILE_ERROR"
    )
    given = [{"name": "DOCKER_HOST", "value": "tcp://x"}]
    redirected = {**start, **spec, "environmentVariablesOverride": given}
    assert refused(service.start_build, projectName="p1", **redirected) == (
        "InvalidInputException",
        "not emulated: the variable DOCKER_HOST, which this machine's programs heed",
    )
    aws.roles = frozenset()
    code, message = refused(service.start_build, projectName="p1", **start, **spec)
    assert (code, "sts:AssumeRole" in message) == ("InvalidInputException", True)


def test_a_repeated_token_is_the_same_build(aws: CodeBuildEmulator) -> None:
    service = client("codebuild")
    service.create_project(**PROJECT)
    start = {
        "projectName": "p1",
        "sourceTypeOverride": "S3",
        "sourceLocationOverride": "staging/none",
        "buildspecOverride": "version: 0.2\nphases: {build: {commands: ['true']}}",
        "idempotencyToken": "t",
    }
    first = service.start_build(**start)["build"]["id"]
    assert service.start_build(**start)["build"]["id"] == first
    other = {**start, "sourceLocationOverride": "staging/other"}
    assert refused(service.start_build, **other)[1] == "Idempotency token parameter mismatch"
    while not (build := service.batch_get_builds(ids=[first])["builds"][0])["buildComplete"]:
        pass
    assert (build["buildStatus"], build["phases"][1]["phaseType"]) == ("FAILED", "DOWNLOAD_SOURCE")
    assert build["phases"][1]["contexts"][0]["message"].startswith("CLIENT_ERROR: NoSuchKey")


def test_commands_of_a_buildspec_share_a_shell(aws: CodeBuildEmulator) -> None:
    service = client("codebuild")
    service.create_project(**PROJECT)
    client("s3").put_object(Bucket="staging", Key="k", Body=EMPTY_ZIP)
    spec = (
        "version: 0.2\nenv: {shell: bash, exported-variables: [OUT]}\nphases:\n"
        "  pre_build: {commands: ['x=$GIVEN-1', 'echo said $x']}\n"
        "  build: {commands: ['export OUT=$x-2', 'exit 3', 'echo never']}\n"
        "  post_build: {commands: ['echo never']}\n"
    )
    build = service.start_build(
        projectName="p1",
        sourceTypeOverride="S3",
        sourceLocationOverride="staging/k",
        buildspecOverride=spec,
        environmentVariablesOverride=[{"name": "GIVEN", "value": "a b"}],
    )["build"]
    while not (end := service.batch_get_builds(ids=[build["id"]])["builds"][0])["buildComplete"]:
        pass
    ended = [(p["phaseType"], p.get("phaseStatus")) for p in end["phases"]]
    assert ended[2:] == [("PRE_BUILD", "SUCCEEDED"), ("BUILD", "FAILED"), ("COMPLETED", None)]
    assert end["buildStatus"] == "FAILED"
    place = {"logGroupName": end["logs"]["groupName"], "logStreamName": end["logs"]["streamName"]}
    events = client("logs").get_log_events(startFromHead=True, **place)["events"]
    assert [event["message"] for event in events] == ["said a b-1\n"]


EMPTY_ZIP = b"PK\x05\x06" + bytes(18)


def test_log_events_come_in_pages(aws: CodeBuildEmulator) -> None:
    log = GrowingLog()
    aws.logs.publish("g", "s", log)
    aws.logs.page = 2
    log.write("one\ntwo\nthree\nunfinished")
    place = {"logGroupName": "g", "logStreamName": "s", "startFromHead": True}
    read = client("logs").get_log_events
    first = read(**place)
    second = read(nextToken=first["nextForwardToken"], **place)
    third = read(nextToken=second["nextForwardToken"], **place)
    pages = [[event["message"] for event in page["events"]] for page in (first, second, third)]
    assert pages == [["one\n", "two\n"], ["three\n"], []]
    assert third["nextForwardToken"] == second["nextForwardToken"]
    place["logStreamName"] = "none"
    assert refused(read, **place)[0] == "ResourceNotFoundException"


def test_s3_keeps_what_it_is_given(aws: CodeBuildEmulator) -> None:
    s3 = client("s3")
    large, small = os.urandom(9 << 20), b"small"
    s3.upload_fileobj(io.BytesIO(large), "staging", "a/large")
    s3.put_object(Bucket="staging", Key="a/small", Body=small)
    assert s3.get_object(Bucket="staging", Key="a/large")["Body"].read() == large
    assert s3.head_object(Bucket="staging", Key="a/small")["ContentLength"] == 5
    assert aws.count("s3.CreateMultipartUpload") == 2  # opened and completed
    assert refused(s3.get_object, Bucket="staging", Key="none")[0] == "NoSuchKey"
    assert refused(s3.put_object, Bucket="none", Key="k", Body=b"")[0] == "NoSuchBucket"


def test_s3_lists_and_reads_as_boto3_expects(aws: CodeBuildEmulator, tmp_path: Path) -> None:
    """Names that XML cannot have come in pages; a transfer in parts asks for the version it began
    with, and boto3 compares the checksum."""
    s3 = client("s3")
    names = [f"a\x01 +&/{number}" for number in range(5)]
    for name in names:
        s3.put_object(Bucket="staging", Key=name, Body=name.encode())
    pages = [
        *s3.get_paginator("list_objects_v2").paginate(
            Bucket="staging", Prefix="a", PaginationConfig={"PageSize": 2}
        )
    ]
    assert [entry["Key"] for page in pages for entry in page["Contents"]] == names
    assert len(pages) == 3
    content = os.urandom(20 << 20)
    s3.upload_fileobj(io.BytesIO(content), "staging", "large")
    s3.download_file("staging", "large", str(tmp_path / "large"))
    assert (tmp_path / "large").read_bytes() == content
    head = s3.head_object(Bucket="staging", Key="large", ChecksumMode="ENABLED")
    assert (head["ChecksumType"], len(head["ChecksumCRC32"])) == ("FULL_OBJECT", 8)
    read = {"Bucket": "staging", "Key": "large", "IfMatch": '"0"'}
    assert refused(s3.get_object, **read)[0] == "PreconditionFailed"
    assert s3.get_object(**{**read, "IfMatch": head["ETag"]})["ContentLength"] == len(content)
