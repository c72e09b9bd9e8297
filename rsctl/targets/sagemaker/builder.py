"""CodeBuild by boto3: upload, start, follow, and end with the digest."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from typing import Any

from rsctl.clients.aws import Aws
from rsctl.clients.aws_errors import AwsError
from rsctl.clients.endpoints import Endpoints
from rsctl.clients.retries import RetryPolicy
from rsctl.clients.staging import parse_staging
from rsctl.clients.storage import Upload
from rsctl.clients.storage.s3 import S3Bucket
from rsctl.findings import ExitCode, RsctlError, note
from rsctl.images.events import BuildEvent
from rsctl.images.recipe import Recipe
from rsctl.images.remote.archive import object_name, pack_context
from rsctl.images.remote.log import BuildLog
from rsctl.known_errors import KnownError, find_known_error
from rsctl.targets.sagemaker.builder_log import LogStream
from rsctl.targets.sagemaker.builder_request import build_request, project_request
from rsctl.targets.sagemaker.builder_result import build_error, digest_of
from rsctl.targets.sagemaker.options import SageMakerOptions

Build = dict[str, Any]

_ROLE = "targets.sagemaker.build_role"
_KNOWN = (
    KnownError(
        "build-role",
        "let codebuild.amazonaws.com assume the role (its trust policy), or set another role in "
        "targets.sagemaker.build_role",
        path=_ROLE,
        codes=frozenset({"InvalidInputException"}),
        pattern=re.compile("AssumeRole"),
    ),
    KnownError(
        "quota",
        "wait for other builds to end, or ask in Service Quotas for more concurrently running "
        "builds",
        codes=frozenset({"AccountLimitExceededException"}),
    ),
)
_QUIET_POLLS = 5


class CodeBuild:
    """Builds in one region. Needs `region`, `staging` and a role."""

    def __init__(self, options: SageMakerOptions, endpoints: Endpoints) -> None:
        self._options = options
        self._staging = parse_staging(options.staging or "")
        self._endpoints = endpoints
        self._retries = RetryPolicy.of(endpoints)
        self._aws = Aws(endpoints, options.first_region, _ROLE, _find_known)

    def build(self, recipe: Recipe, show: Callable[[BuildEvent], None]) -> str:
        """Build and push; the digest. Raises RsctlError.

        Ctrl-C and the cancellation of the run stop the build.
        """
        log = BuildLog(show)
        with pack_context(recipe) as context:
            location = self._stage(context, log)
        build = self._start(build_request(recipe, self._options, location, uuid.uuid4().hex))
        try:
            log.add_line(f"CodeBuild {build['id']}")
            end = self._follow(build["id"], log)
        except (KeyboardInterrupt, RsctlError) as problem:
            if not isinstance(problem, RsctlError) or problem.exit_code is ExitCode.CANCELLED:
                self._aws.request("codebuild", "stop_build", {"id": build["id"]})
                raise
            message = f"build {build['id']} may still run; the same command starts another build"
            remedy = f"wait for its end, or stop it: aws codebuild stop-build --id {build['id']}"
            runs = note("build-runs", message, remedy)
            raise RsctlError(problem.exit_code, *problem.findings, runs) from None
        if end.get("buildStatus") != "SUCCEEDED":
            raise build_error(end, recipe, log)
        return digest_of(end, recipe)

    def _stage(self, context: Upload, log: BuildLog) -> str:
        """Upload the context to the staging bucket; its BUCKET/KEY."""
        name, key = self._staging.bucket, self._staging.folder + object_name(context)
        message = f"uploading the context to s3://{name}, {context.size} bytes"
        bucket = S3Bucket(
            *(self._endpoints, name, self._options.first_region, "targets.sagemaker.staging")
        )
        bucket.put(key, context, lambda: log.add_line(message))
        return f"{name}/{key}"

    def _start(self, request: dict[str, Any]) -> Build:
        try:
            started = self._aws.request("codebuild", "start_build", request, member="build")
        except AwsError as problem:
            if problem.code != "ResourceNotFoundException":
                raise
            self._create_project()
            started = self._aws.request("codebuild", "start_build", request, member="build")
        build: Build = started["build"]
        return build

    def _create_project(self) -> None:
        try:
            self._aws.request("codebuild", "create_project", project_request(self._options))
        except AwsError as problem:
            if problem.code != "ResourceAlreadyExistsException":
                raise

    def _follow(self, identity: str, log: BuildLog) -> Build:
        """Show phases and log until the build has ended and its log is complete."""
        stream, shown, quiet = LogStream(self._aws), 0, 0
        for _ in self._retries.polls():
            log.check()
            answer = self._aws.request(
                "codebuild", "batch_get_builds", {"ids": [identity]}, member="builds"
            )
            build: Build = answer["builds"][0]
            phases = build.get("phases", [])
            for phase in phases[shown:]:
                log.add_line(f"CodeBuild phase {phase['phaseType']}")
            shown = max(shown, len(phases))
            messages = _messages(stream, build)
            for message in messages:
                log.feed(message.rstrip("\n").encode(errors="replace") + b"\n")
            quiet = 0 if messages else quiet + 1
            if build.get("buildComplete") and quiet >= _QUIET_POLLS:
                break
        log.end()
        return build


def _messages(stream: LogStream, build: Build) -> list[str]:
    logs = build.get("logs", {})
    group, name = logs.get("groupName"), logs.get("streamName")
    return stream.read(group, name) if group and name else []


def _find_known(code: str, message: str) -> KnownError | None:
    """The known errors of CodeBuild."""
    return find_known_error(_KNOWN, message, code)
