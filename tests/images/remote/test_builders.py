"""Which service builds for which target, and what a job must say for it; and the requests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from google.protobuf import json_format

from rsctl.clients.endpoints import Endpoints
from rsctl.findings import ExitCode, RsctlError
from rsctl.images.remote.builders import remote_builder
from rsctl.images.remote.log import BuildLog
from rsctl.job.document import read
from rsctl.job.job import Job
from rsctl.targets.sagemaker import builder_request as codebuild_request
from rsctl.targets.sagemaker.builder import CodeBuild
from rsctl.targets.sagemaker.emulator.aws_models import problems, service_model
from rsctl.targets.sagemaker.options import SageMakerOptions
from rsctl.targets.vertex import builder_request as cloudbuild_request
from rsctl.targets.vertex.builder import CloudBuild
from rsctl.targets.vertex.options import VertexOptions

from .conftest import ROLE, Tiny


@pytest.fixture
def job(tmp_path: Path) -> Callable[[str], Job]:
    def reader(more: str = "") -> Job:
        text = f"name: job\nrun: {{script: train.py}}\n{more}"
        (tmp_path / "train.py").touch()
        (tmp_path / "job.yaml").write_text(text)
        return read(str(tmp_path / "job.yaml"), ()).require_job()

    return reader


COMPLETE = """\
image: {base: base, repository: host/team/job}
targets:
  vertex: {project: p, region: us-central1, staging: gs://bucket}
  sagemaker: {region: us-east-1, staging: s3://bucket, role: arn:aws:iam::123456789012:role/r}
"""


def test_each_cloud_has_its_builder(job: Callable[[str], Job]) -> None:
    assert isinstance(
        remote_builder(job(COMPLETE), "vertex", Endpoints.of_environment()), CloudBuild
    )
    assert isinstance(
        remote_builder(job(COMPLETE), "sagemaker", Endpoints.of_environment()), CodeBuild
    )


@pytest.mark.parametrize(
    ("target", "fields"),
    [
        (
            "vertex",
            [
                "targets.vertex.project",
                "targets.vertex.region",
                "targets.vertex.staging",
                "image.repository",
            ],
        ),
        (
            "sagemaker",
            [
                "targets.sagemaker.region",
                "targets.sagemaker.staging",
                "targets.sagemaker.build_role",
                "image.repository",
            ],
        ),
        ("compose", ["target"]),
    ],
)
def test_what_is_missing_is_named_at_once(
    job: Callable[[str], Job], target: str, fields: list[str]
) -> None:
    with pytest.raises(RsctlError) as caught:
        remote_builder(job("image: {base: base}\n"), target, Endpoints.of_environment())
    assert caught.value.exit_code is ExitCode.USAGE
    assert [finding.path for finding in caught.value.findings] == fields
    assert all(finding.remedy for finding in caught.value.findings)


def test_the_request_to_cloud_build_is_what_googles_proto_has() -> None:
    from google.cloud.devtools.cloudbuild_v1.types import cloudbuild

    recipe = Tiny(digest="0123456789abcdef", labels={"k": "a$b"})
    options = VertexOptions(project="p", staging="gs://bucket/x", build_service_account="b@p.iam")
    request = cloudbuild_request.build_request(recipe, options, "x/object.zip", "17")
    parsed = json_format.ParseDict(request, cloudbuild.Build.pb()())
    assert json_format.MessageToDict(parsed) == request
    [step] = request["steps"]
    assert step["args"][2:] == [
        "rsctl-build",
        "tiny:1",
        "linux/amd64",
        "127.0.0.1:1/team/tiny:0123456789abcdef",
        "127.0.0.1:1/team/tiny",
        "keep",
        "--platform",
        "linux/amd64",
        "--label",
        "k=a$$b",
    ]
    del request["steps"]
    assert request == {
        "source": {
            "storageSource": {"bucket": "bucket", "object": "x/object.zip", "generation": "17"}
        },
        "images": ["127.0.0.1:1/team/tiny:0123456789abcdef"],
        "tags": ["rsctl", "rsctl-0123456789abcdef"],
        "timeout": "7200s",
        "logsBucket": "gs://bucket/x/logs",
        "options": {"logging": "GCS_ONLY", "logStreamingOption": "STREAM_ON"},
        "serviceAccount": "projects/p/serviceAccounts/b@p.iam",
    }


def test_each_cloud_builds_for_the_platforms_of_its_machines(job: Callable[[str], Job]) -> None:
    for_arm = job(COMPLETE.replace("base: base,", "base: base, platform: linux/arm64,"))
    assert isinstance(remote_builder(for_arm, "sagemaker", Endpoints.of_environment()), CodeBuild)
    with pytest.raises(RsctlError) as caught:
        remote_builder(for_arm, "vertex", Endpoints.of_environment())
    [finding] = caught.value.findings
    assert (finding.path, finding.message) == (
        "image.platform",
        "the cloud of target vertex builds for linux/amd64",
    )
    request = codebuild_request.build_request(
        Tiny(platform="linux/arm64"), SageMakerOptions(role=ROLE), "bucket/key", "token"
    )
    assert (request["environmentTypeOverride"], request["computeTypeOverride"]) == (
        "ARM_CONTAINER",
        "BUILD_GENERAL1_LARGE",
    )


def test_the_requests_to_codebuild_are_what_botocores_model_has() -> None:
    options = SageMakerOptions(region="us-east-1", staging="s3://bucket", role=ROLE)
    model = service_model("codebuild")
    project = codebuild_request.project_request(options)
    assert list(problems(project, model.operation_model("CreateProject").input_shape)) == []
    build = codebuild_request.build_request(Tiny(), options, "bucket/key", "token")
    assert list(problems(build, model.operation_model("StartBuild").input_shape)) == []
    # CodeBuild's limit for all variables of a build together.
    variables = build["environmentVariablesOverride"]
    assert sum(len(v["name"]) + len(v["value"]) for v in variables) < 5500


def test_no_cloud_gets_the_secrets_of_a_build(job: Callable[[str], Job]) -> None:
    of_image = COMPLETE.replace("base: base,", "base: base, python: [x], secrets: [GIT_TOKEN],")
    for target in ("vertex", "sagemaker"):
        with pytest.raises(RsctlError) as caught:
            remote_builder(job(of_image), target, Endpoints.of_environment())
        [finding] = caught.value.findings
        assert (finding.code, finding.path) == ("unsupported", "image.secrets")


@pytest.mark.parametrize(
    ("blocks", "ends"),
    [
        ([b"a\nDONE"], True),
        ([b"a\nDONE\n\n  \n"], True),
        ([b"a\n", b"ERR", b"OR: build"], True),
        ([b"DONE\nb"], False),
        ([b"DONE\nb\n"], False),
        ([b"DONE\n", b"  "], True),
        ([], False),
    ],
)
def test_the_last_line_of_a_log_ends_a_build(blocks: list[bytes], ends: bool) -> None:
    """Whether it has a line break yet, and whatever blanks follow."""
    log = BuildLog(lambda _: None)
    for block in blocks:
        log.feed(block)
    assert log.ends_with(("DONE", "ERROR")) is ends
