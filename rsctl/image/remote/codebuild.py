"""CodeBuild by boto3: upload, start, follow, and end with the digest."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from rsctl.clients.archive import Archive
from rsctl.clients.aws import client, code_of, findings
from rsctl.clients.pace import Pace
from rsctl.clients.s3 import Bucket
from rsctl.clients.staging import parse_staging
from rsctl.image.events import Event
from rsctl.image.recipe import Recipe
from rsctl.image.remote.archive import pack_context
from rsctl.image.remote.cloudwatch import LogStream
from rsctl.image.remote.codebuild_request import build_request, project_request
from rsctl.image.remote.codebuild_result import build_error, digest_of
from rsctl.image.remote.log import BuildLog
from rsctl.spec.options import SageMakerOptions

Build = dict[str, Any]

_ROLE = "targets.sagemaker.build_role"
_QUIET_POLLS = 5


class CodeBuild:
    """Builds in one region. Needs `region`, `staging` and a role."""

    def __init__(self, options: SageMakerOptions, pace: Pace | None = None) -> None:
        self._options = options
        self._staging = parse_staging(options.staging or "")
        self._pace = pace or Pace.of_environment()

    def build(self, recipe: Recipe, show: Callable[[Event], None]) -> str:
        """Build and push; the digest. Raises RsctlError. Ctrl-C stops the build."""
        log = BuildLog(show)
        service = client("codebuild", self._options.region)
        with pack_context(recipe) as archive:
            location = self._stage(archive, log)
        build = self._start(service, build_request(recipe, self._options, location, _token()))
        log.add_line(f"CodeBuild {build['id']}")
        try:
            end = self._follow(service, build["id"], log)
        except KeyboardInterrupt:
            with findings("targets.sagemaker"):
                service.stop_build(id=build["id"])
            raise
        if end.get("buildStatus") != "SUCCEEDED":
            raise build_error(end, recipe, log)
        return digest_of(end, recipe)

    def _stage(self, archive: Archive, log: BuildLog) -> str:
        """Have the archive in the staging bucket, as BUCKET/KEY."""
        name, key = self._staging.bucket, self._staging.folder + archive.name
        message = f"uploading the context to s3://{name}, {archive.size} bytes"
        Bucket(name, self._options.region).put(key, archive, lambda: log.add_line(message))
        return f"{name}/{key}"

    def _start(self, service: Any, request: dict[str, Any]) -> Build:
        from botocore.exceptions import ClientError

        with findings(_ROLE):
            try:
                started = service.start_build(**request)
            except ClientError as problem:
                if code_of(problem) != "ResourceNotFoundException":
                    raise
                self._create_project(service)
                started = service.start_build(**request)
        build: Build = started["build"]
        return build

    def _create_project(self, service: Any) -> None:
        from botocore.exceptions import ClientError

        try:
            service.create_project(**project_request(self._options))
        except ClientError as problem:
            if code_of(problem) != "ResourceAlreadyExistsException":
                raise

    def _follow(self, service: Any, identity: str, log: BuildLog) -> Build:
        """Show phases and log until the build has ended and no more of its log comes."""
        stream, shown, quiet = LogStream(self._options.region), 0, 0
        for _ in self._pace.looks():
            with findings("targets.sagemaker"):
                build: Build = service.batch_get_builds(ids=[identity])["builds"][0]
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


def _token() -> str:
    return uuid.uuid4().hex
