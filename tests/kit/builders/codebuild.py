"""CodeBuild, with the S3 and CloudWatch Logs it needs: builds with this machine's docker."""

from __future__ import annotations

import threading
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rsctl.targets.managed.emulator.scratch import ScratchFolder
from rsctl.targets.sagemaker.emulator.aws_services import AwsEmulator, Service
from rsctl.targets.sagemaker.emulator.s3 import S3
from tests.kit.builders.any_names import AnyKeys
from tests.kit.builders.buildspec import Buildspec, run_phases
from tests.kit.builders.cloudwatch import CloudWatchLogs
from tests.kit.builders.commands import BuildCommands, GrowingLog, redirecting, unpack

_INVALID = "InvalidInputException"
_ASSUME = "CodeBuild is not authorized to perform: sts:AssumeRole on {role}"


@dataclass
class _Build:
    """A build: what the API shows of it, its log, and what runs for it."""

    shown: dict[str, Any]
    commands: BuildCommands
    folder: Path
    log: GrowingLog
    variables: dict[str, str] = field(default_factory=dict)


class CodeBuildEmulator(AwsEmulator):
    """CodeBuild of one account and region. `buckets` are there from the start.

    `roles` are those that CodeBuild may assume; None: any.
    """

    def __init__(
        self,
        region: str = "us-east-1",
        buckets: tuple[str, ...] = ("staging",),
        roles: frozenset[str] | None = None,
    ) -> None:
        super().__init__(region)
        self.logs = CloudWatchLogs(self)
        self.roles = roles
        self.projects: dict[str, dict[str, Any]] = {}
        self._builds: dict[str, _Build] = {}
        self._by_token: dict[str, tuple[dict[str, Any], str]] = {}
        self._threads: list[threading.Thread] = []
        self._scratch = ScratchFolder()
        self._folder = self._scratch.path
        self.objects = AnyKeys(self._folder / "s3")
        self.routes += S3(buckets, self.objects).routes()
        operations = {
            "CreateProject": self._create_project,
            "StartBuild": self._start_build,
            "BatchGetBuilds": self._batch_get_builds,
            "StopBuild": self._stop_build,
        }
        self.add(Service("codebuild", _INVALID, operations))

    def stop(self) -> None:
        """End all builds and remove what they left."""
        for build in self._builds.values():
            build.commands.stop()
        for thread in self._threads:
            thread.join()
        self._scratch.close()

    def builds(self) -> list[dict[str, Any]]:
        """All builds as the API shows them, the newest first."""
        return [build.shown for build in reversed(self._builds.values())]

    def _create_project(self, wanted: dict[str, Any]) -> dict[str, Any]:
        if wanted["name"] in self.projects:
            message = f"Project already exists: {self._arn('project', wanted['name'])}"
            raise self.refuse(400, "ResourceAlreadyExistsException", message)
        self._require_role(wanted["serviceRole"])
        if wanted["source"]["type"] == "NO_SOURCE" and not wanted["source"].get("buildspec"):
            raise self.refuse(400, _INVALID, "Buildspec must be specified when using NO_SOURCE")
        project = {**wanted, "arn": self._arn("project", wanted["name"]), "created": time.time()}
        self.projects[wanted["name"]] = project
        return {"project": project}

    def _start_build(self, wanted: dict[str, Any]) -> dict[str, Any]:
        token = wanted.get("idempotencyToken")
        if token in self._by_token:
            before, identity = self._by_token[token]
            if before != wanted:
                raise self.refuse(400, _INVALID, "Idempotency token parameter mismatch")
            return {"build": self._builds[identity].shown}
        project = self.projects.get(wanted["projectName"])
        if project is None:
            message = f"Project cannot be found: {self._arn('project', wanted['projectName'])}"
            raise self.refuse(400, "ResourceNotFoundException", message)
        self._require_role(wanted.get("serviceRoleOverride") or project["serviceRole"])
        if wanted.get("sourceTypeOverride") == "S3" and "/" not in wanted.get(
            "sourceLocationOverride", ""
        ):
            raise self.refuse(400, _INVALID, "Invalid S3 source location: expected BUCKET/KEY")
        try:
            Buildspec.of(wanted.get("buildspecOverride", ""))
        except ValueError as problem:
            raise self.refuse(400, _INVALID, str(problem)) from None
        named = (each["name"] for each in wanted.get("environmentVariablesOverride", []))
        if name := redirecting(named):
            message = f"not emulated: the variable {name}, which this machine's programs heed"
            raise self.refuse(400, _INVALID, message)
        build = self._make_build(wanted)
        if token:
            self._by_token[token] = (wanted, build.shown["id"])
        thread = threading.Thread(target=self._run, args=(build, wanted), daemon=True)
        self._threads.append(thread)
        thread.start()
        return {"build": dict(build.shown)}

    def _make_build(self, wanted: dict[str, Any]) -> _Build:
        stream = str(uuid.uuid4())
        identity = f"{wanted['projectName']}:{stream}"
        folder = self._folder / stream
        folder.mkdir()
        group = f"/aws/codebuild/{wanted['projectName']}"
        shown = {
            "id": identity,
            "arn": self._arn("build", identity),
            "projectName": wanted["projectName"],
            "buildStatus": "IN_PROGRESS",
            "buildComplete": False,
            "currentPhase": "QUEUED",
            "startTime": time.time(),
            "phases": [{"phaseType": "SUBMITTED", "phaseStatus": "SUCCEEDED"}],
            "logs": {"groupName": group, "streamName": stream},
        }
        log = GrowingLog()
        self.logs.publish(group, stream, log)
        named = {v["name"]: v["value"] for v in wanted.get("environmentVariablesOverride", [])}
        build = _Build(shown, BuildCommands(folder, log), folder, log, named)
        self._builds[identity] = build
        return build

    def _batch_get_builds(self, wanted: dict[str, Any]) -> dict[str, Any]:
        found = [self._builds[i].shown for i in wanted["ids"] if i in self._builds]
        missing = [i for i in wanted["ids"] if i not in self._builds]
        return {"builds": found, **({"buildsNotFound": missing} if missing else {})}

    def _stop_build(self, wanted: dict[str, Any]) -> dict[str, Any]:
        build = self._builds.get(wanted["id"])
        if build is None:
            raise self.refuse(400, "ResourceNotFoundException", "Build cannot be found")
        if not build.shown["buildComplete"]:
            build.shown["buildStatus"] = "STOPPED"
            build.commands.stop()
        return {"build": build.shown}

    def _require_role(self, role: str) -> None:
        if self.roles is not None and role not in self.roles:
            raise self.refuse(400, _INVALID, _ASSUME.format(role=role))

    def _arn(self, kind: str, name: str) -> str:
        return f"arn:aws:codebuild:{self.region}:{self.account}:{kind}/{name}"

    def _run(self, build: _Build, wanted: dict[str, Any]) -> None:
        exported: list[dict[str, str]] = []
        ended = self._download(build, wanted["sourceLocationOverride"])
        if not ended:
            spec = Buildspec.of(wanted["buildspecOverride"])
            ended, exported = run_phases(spec, build.commands, build.folder, build.variables)
        with self.lock:
            build.shown["exportedEnvironmentVariables"] = exported
            for phase, message in ended:
                self._enter(build, phase, message)
            self._enter(build, "COMPLETED", None)
            if build.shown["buildStatus"] == "IN_PROGRESS":
                build.shown["buildStatus"] = "FAILED" if _has_failed(build) else "SUCCEEDED"
            build.shown.update(buildComplete=True, endTime=time.time())

    def _download(self, build: _Build, location: str) -> list[tuple[str, str | None]]:
        bucket, _, key = location.partition("/")
        content = self.objects.content(bucket, key)
        if content is None:
            missing = "CLIENT_ERROR: NoSuchKey: The specified key does not exist. status code: 404"
            return [("DOWNLOAD_SOURCE", missing)]
        try:
            unpack(content, build.folder)
        except OSError as problem:
            return [("DOWNLOAD_SOURCE", f"CLIENT_ERROR: {problem}")]
        self._enter(build, "DOWNLOAD_SOURCE", None)
        return []

    def _enter(self, build: _Build, phase: str, failure: str | None) -> None:
        """Note a phase that has ended; `failure` is what it failed of."""
        ended: dict[str, Any] = {"phaseType": phase}
        if phase != "COMPLETED":
            ended["phaseStatus"] = "FAILED" if failure else "SUCCEEDED"
        if failure:
            code = "CLIENT_ERROR" if phase == "DOWNLOAD_SOURCE" else "COMMAND_EXECUTION_ERROR"
            ended["contexts"] = [{"statusCode": code, "message": failure}]
        with self.lock:
            build.shown["phases"].append(ended)
            build.shown["currentPhase"] = phase


def _has_failed(build: _Build) -> bool:
    return any(phase.get("phaseStatus") == "FAILED" for phase in build.shown["phases"])
