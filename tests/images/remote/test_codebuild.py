"""CodeBuild when all goes well and when it does not. Docker is a fake; the HTTP is real."""

from __future__ import annotations

import hashlib
import os

import pytest

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.images.events import BuildEvent, BuildOutput, BuildStep, CheckedShow
from rsctl.targets.managed.emulator.faults import Fault
from tests.kit.builders.codebuild import CodeBuildEmulator

from .conftest import DIGEST, FakeDocker, Screen, Tiny, code_build, refusal

START, GET, LOGS = "codebuild.StartBuild", "codebuild.BatchGetBuilds", "logs.GetLogEvents"
MANY = 'i=0; while [ $i -lt 100 ]; do echo "#1 0.1 line $i"; i=$((i+1)); done'


def test_the_whole_way(aws: CodeBuildEmulator, docker: FakeDocker, screen: Screen) -> None:
    recipe = Tiny(labels={"title": "costs $5 `id`\nand more"})
    assert code_build().build(recipe, screen) == DIGEST
    [build] = aws.builds()
    assert build["buildStatus"] == "SUCCEEDED"
    assert list(aws.projects) == ["rsctl-build"]
    assert aws.projects["rsctl-build"]["environment"]["privilegedMode"] is True
    at = screen.events.index(BuildStep(1, 1, "RUN echo built"))
    assert screen.events[at + 1] == BuildOutput("built", 1)
    assert f"build --cache-from {recipe.repository}:rsctl-cache" in "\n".join(docker.calls)
    assert "--label title=costs $5 `id`" in "\n".join(docker.calls)
    phases = [line for line in screen.lines if line.startswith("CodeBuild phase ")]
    assert [line.split()[-1] for line in phases] == [
        "SUBMITTED",
        "DOWNLOAD_SOURCE",
        "PRE_BUILD",
        "BUILD",
        "COMPLETED",
    ]


def test_an_unchanged_context_is_uploaded_once(
    aws: CodeBuildEmulator, docker: FakeDocker, screen: Screen
) -> None:
    recipe = Tiny()
    code_build().build(recipe, screen)
    code_build().build(recipe, screen)
    assert (aws.count("s3.PutObject"), aws.count("codebuild.CreateProject")) == (1, 1)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(START, cut="answer"),
        Fault(START, status=400, code="ThrottlingException"),
        Fault(GET, status=503, code="ServiceUnavailable"),
        Fault(LOGS, status=400, code="ThrottlingException"),
        Fault("s3.PutObject", cut="request"),
        Fault("s3.PutObject", status=503, code="SlowDown"),
    ],
    ids=lambda fault: f"{fault.route}-{fault.status or fault.cut}",
)
def test_what_passes_by_is_got_over(
    aws: CodeBuildEmulator, docker: FakeDocker, screen: Screen, fault: Fault
) -> None:
    code_build().build(Tiny(), Screen())  # so that the project is there
    aws.faults.add(fault)
    assert code_build().build(Tiny(), screen) == DIGEST
    assert screen.lines.count("built") == 1
    assert len(aws.builds()) == 2


def test_a_large_upload_in_parts(
    aws: CodeBuildEmulator, docker: FakeDocker, screen: Screen
) -> None:
    aws.faults.add(Fault("s3.PutObject", cut="request"))
    assert code_build().build(Tiny(payload=os.urandom(20 << 20)), screen) == DIGEST
    [key] = aws.objects.names("staging")
    content = aws.objects.content("staging", key) or b""
    assert key == f"a/b/rsctl-context-{hashlib.sha256(content).hexdigest()[:32]}.zip"


def test_the_log_may_come_late_and_in_pages(
    aws: CodeBuildEmulator, docker: FakeDocker, screen: Screen
) -> None:
    docker.build("echo '#1 [1/1] RUN x'; " + MANY)
    aws.logs.missing, aws.logs.page = 3, 7
    code_build().build(Tiny(), screen)
    lines = [line for line in screen.lines if line.startswith("line ")]
    assert lines == [f"line {n}" for n in range(100)]


@pytest.mark.parametrize("line", ["CodeBuild ", "waiting"])
def test_an_interruption_stops_the_build(
    aws: CodeBuildEmulator, docker: FakeDocker, screen: Screen, line: str
) -> None:
    """Also as soon as its name is shown."""
    docker.build("echo '#1 [1/1] RUN x'; echo '#1 0.1 waiting'; while :; do sleep 0.05; done")

    def interrupt(event: BuildEvent) -> None:
        if isinstance(event, BuildOutput) and event.line.startswith(line):
            raise KeyboardInterrupt

    screen.at = interrupt
    with pytest.raises(KeyboardInterrupt):
        code_build().build(Tiny(), screen)
    assert [build["buildStatus"] for build in aws.builds()] == ["STOPPED"]


def test_a_cancellation_of_the_run_ends_a_silent_build(
    aws: CodeBuildEmulator, docker: FakeDocker, screen: Screen
) -> None:
    docker.build("while :; do sleep 0.05; done")

    def check() -> None:
        if aws.count(GET) > 2:
            raise RsctlError(ExitCode.CANCELLED, error("interrupted", "cancelled"))

    with pytest.raises(RsctlError, match=r"^cancelled$"):
        code_build().build(Tiny(), CheckedShow(screen, check))
    assert [build["buildStatus"] for build in aws.builds()] == ["STOPPED"]


def test_a_build_that_goes_out_of_sight(
    aws: CodeBuildEmulator, docker: FakeDocker, screen: Screen
) -> None:
    aws.faults.add(Fault(GET, status=503, times=99))
    with pytest.raises(RsctlError) as caught:
        code_build().build(Tiny(), screen)
    [build] = aws.builds()
    failed, runs = caught.value.findings
    assert (failed.code, runs.severity) == ("cloud", "note")
    assert runs.message.startswith(f"build {build['id']} may still run")
    assert runs.remedy == (
        f"wait for its end, or stop it: aws codebuild stop-build --id {build['id']}"
    )


BUILD_ROLE = "targets.sagemaker.build_role"
STAGING = "targets.sagemaker.staging"
LOG_IN = "run `aws sso login` or `aws configure`, or set AWS_PROFILE to a profile that works"
REFUSED = {
    "permission": (
        Fault(START, status=400, code="AccessDeniedException", message="no codebuild:StartBuild"),
        "REFUSED",
        "denied",
        "AWS refuses: no codebuild:StartBuild (AccessDeniedException)",
        "ask for the permission that the message names, or use another profile with AWS_PROFILE",
        BUILD_ROLE,
    ),
    "quota": (
        Fault(
            START,
            status=400,
            code="AccountLimitExceededException",
            message="Cannot have more than 0 builds in queue for the account",
        ),
        "REFUSED",
        "quota",
        "AWS refuses: Cannot have more than 0 builds in queue for the account "
        "(AccountLimitExceededException)",
        "wait for other builds to end, or ask in Service Quotas for more concurrently running "
        "builds",
        BUILD_ROLE,
    ),
    "token": (
        Fault(START, status=400, code="ExpiredTokenException", message="The token has expired"),
        "ENVIRONMENT",
        "credentials-expired",
        "AWS refuses: The token has expired (ExpiredTokenException)",
        LOG_IN,
        BUILD_ROLE,
    ),
    "upload": (
        Fault("s3.PutObject", status=403, code="AccessDenied", message="Access Denied"),
        "REFUSED",
        "denied",
        "AWS refuses: Access Denied: it requires s3:PutObject (AccessDenied)",
        "ask for the permission that the message names, or use another profile with AWS_PROFILE",
        STAGING,
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_has_a_remedy(
    aws: CodeBuildEmulator, docker: FakeDocker, screen: Screen, case: str
) -> None:
    fault, *expected = REFUSED[case]
    aws.faults.add(fault)
    with pytest.raises(RsctlError) as caught:
        code_build().build(Tiny(), screen)
    assert list(refusal(caught.value)) == expected


def test_a_role_that_codebuild_may_not_take(aws: CodeBuildEmulator, screen: Screen) -> None:
    role = "arn:aws:iam::123456789012:role/train"
    with pytest.raises(RsctlError) as caught:
        code_build(build_role="", role=role).build(Tiny(), screen)
    assert refusal(caught.value) == (
        "REFUSED",
        "build-role",
        f"AWS refuses: CodeBuild is not authorized to perform: sts:AssumeRole on {role} "
        "(InvalidInputException)",
        "let codebuild.amazonaws.com assume the role (its trust policy), or set another role in "
        "targets.sagemaker.build_role",
        BUILD_ROLE,
    )


def test_a_bucket_that_is_not_there(aws: CodeBuildEmulator, screen: Screen) -> None:
    with pytest.raises(RsctlError) as caught:
        code_build(staging="s3://nobody").build(Tiny(), screen)
    assert refusal(caught.value) == (
        "REFUSED",
        "bucket",
        "AWS refuses: The specified bucket does not exist (NoSuchBucket)",
        "create it: `aws s3 mb s3://NAME`, or use another bucket",
        STAGING,
    )


def test_a_push_that_fails(aws: CodeBuildEmulator, docker: FakeDocker, screen: Screen) -> None:
    program = docker.folder / "docker"
    program.write_text(
        program.read_text().replace('"push "*)', '"push "*) echo "denied: no"; exit 1;')
    )
    with pytest.raises(RsctlError) as caught:
        code_build().build(Tiny(), screen)
    assert "denied: no" in str(caught.value)


def test_registries_of_ecr_are_logged_in_to(
    aws: CodeBuildEmulator, docker: FakeDocker, screen: Screen
) -> None:
    program = docker.folder / "aws"
    program.write_text(f"#!/bin/sh\necho \"aws $*\" >> '{docker.folder}/calls'\necho pass word\n")
    program.chmod(0o755)
    base = "763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch:2"
    repository = "123456789012.dkr.ecr.us-east-1.amazonaws.com/team/job"
    assert code_build().build(Tiny(base=base, repository=repository), screen) == DIGEST
    # The two ends of a pipe may write down their call in any order.
    assert sorted(docker.calls[:4]) == [
        "aws ecr get-login-password --region us-east-1",
        "aws ecr get-login-password --region us-west-2",
        "login --username AWS --password-stdin 123456789012.dkr.ecr.us-east-1.amazonaws.com",
        "login --username AWS --password-stdin 763104351884.dkr.ecr.us-west-2.amazonaws.com",
    ]


def test_a_log_in_that_fails(aws: CodeBuildEmulator, docker: FakeDocker, screen: Screen) -> None:
    program = docker.folder / "aws"
    program.write_text("#!/bin/sh\necho not allowed\n")
    program.chmod(0o755)
    repository = "123456789012.dkr.ecr.us-east-1.amazonaws.com/team/job"
    with pytest.raises(RsctlError) as caught:
        code_build().build(Tiny(repository=repository), screen)
    assert refusal(caught.value) == (
        "REFUSED",
        "denied",
        "CodeBuild failed in phase PRE_BUILD: Error while executing command. Reason: exit status 1",
        "give the build role ecr:GetAuthorizationToken and permission to push",
        BUILD_ROLE,
    )


def test_no_credentials(
    aws: CodeBuildEmulator, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(RsctlError) as caught:
        code_build().build(Tiny(), screen)
    code, name, _, remedy, _ = refusal(caught.value)
    assert (code, name, remedy) == ("ENVIRONMENT", "credentials-missing", LOG_IN)
