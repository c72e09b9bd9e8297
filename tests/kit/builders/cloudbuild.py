"""Cloud Build and the Cloud Storage it needs: builds with this machine's docker."""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rsctl.targets.managed.emulator.http import Reply, Request, route
from rsctl.targets.managed.emulator.scratch import ScratchFolder
from rsctl.targets.vertex.emulator.google_services import GoogleEmulator
from tests.kit.builders.any_names import AnyNames
from tests.kit.builders.cloudbuild_check import problems, substituted
from tests.kit.builders.commands import BuildCommands, GrowingLog, unpack

BUILDER = "gcr.io/cloud-builders/docker"
_PUSHED = re.compile(rb"digest: (sha256:[0-9a-f]{64})")
_FILTER = re.compile(r'tags="([^"]*)"')


@dataclass
class _Build:
    """A build: what the API shows of it, its log, and what runs for it."""

    shown: dict[str, Any]
    commands: BuildCommands
    folder: Path
    log: GrowingLog = field(default_factory=GrowingLog)
    late: int = 0


class _BuildStorage(AnyNames):
    """Cloud Storage with `logs` of builds, by bucket and name, that grow as they are read."""

    def __init__(self, emulator: GoogleEmulator, buckets: tuple[str, ...], folder: Path) -> None:
        super().__init__(emulator, buckets, folder)
        self.logs: dict[tuple[str, str], Callable[[], bytes]] = {}

    def read(self, bucket: str, name: str) -> tuple[int, bytes] | None:
        if log := self.logs.get((bucket, name)):
            return 1, log()
        return super().read(bucket, name)


class CloudBuildEmulator(GoogleEmulator):
    """Cloud Build of one project. `buckets` are there from the start.

    `log_missing` is how many reads find no log at first, `log_behind` how many find none of its
    second half after the build has ended.
    """

    def __init__(self, project: str = "rehearsal", buckets: tuple[str, ...] = ("staging",)) -> None:
        super().__init__(project)
        self.log_missing = 0
        self.log_behind = 0
        self._builds: dict[str, _Build] = {}
        self._threads: list[threading.Thread] = []
        self._scratch = ScratchFolder()
        self.folder = self._scratch.path
        self.storage = _BuildStorage(self, buckets, self.folder / "gs")
        builds = r"/v1/projects/{project}/locations/{location}/builds"
        self.routes += self.storage.routes()
        self.routes += [
            route("cloudbuild.builds.create", "POST", builds, self._create),
            route("cloudbuild.builds.list", "GET", builds, self._list),
            route("cloudbuild.builds.get", "GET", builds + "/{build}", self._get),
            route("cloudbuild.builds.cancel", "POST", builds + "/{build}:cancel", self._cancel),
        ]

    def environment(self) -> dict[str, str]:
        """The variables by which Google's clients and rsctl find this emulator."""
        key = self.folder / "key.json"
        self.access.write_key(key, f"{self.url}/token")
        return {
            "GOOGLE_APPLICATION_CREDENTIALS": str(key),
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDBUILD": self.url,
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": self.url,
            "STORAGE_EMULATOR_HOST": self.url,
        }

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

    def _create(self, request: Request) -> Reply:
        self._require_project(request)
        wanted = self._checked(request)
        identity = str(uuid.uuid4())
        folder = self.folder / identity
        folder.mkdir()
        log = GrowingLog()
        shown = {
            **wanted,
            "id": identity,
            "projectId": self.project,
            "status": "QUEUED",
            "createTime": _now(),
            "logUrl": f"https://console.cloud.google.com/cloud-build/builds/{identity}",
        }
        build = _Build(shown, BuildCommands(folder, log), folder, log)
        self._builds[identity] = build
        self._publish_log(identity, build)
        thread = threading.Thread(target=self._run, args=(build,), daemon=True)
        self._threads.append(thread)
        thread.start()
        kind = "type.googleapis.com/google.devtools.cloudbuild.v1.BuildOperationMetadata"
        operation = f"operations/build/{self.project}/{identity}"
        return Reply.of({"name": operation, "metadata": {"@type": kind, "build": dict(shown)}})

    def _checked(self, request: Request) -> dict[str, Any]:
        try:
            wanted = request.json()
            found = next(problems(wanted), None)
            for step in wanted.get("steps", []):
                for argument in step.get("args", []):
                    substituted(argument)
        except (ValueError, TypeError, AttributeError) as problem:
            found = str(problem)
        if found:
            raise self.refuse(400, "INVALID_ARGUMENT", found)
        checked: dict[str, Any] = wanted
        bucket = str(checked.get("logsBucket", "")).removeprefix("gs://").partition("/")[0]
        if not self.storage.has(bucket):
            raise self.refuse(400, "INVALID_ARGUMENT", f"logs bucket {bucket!r} does not exist")
        return checked

    def _require_project(self, request: Request) -> None:
        if request.parts["project"] != self.project:
            message = "The caller does not have permission on this project."
            raise self.refuse(403, "PERMISSION_DENIED", message)

    def _get(self, request: Request) -> Reply:
        return Reply.of(self._build(request).shown)

    def _build(self, request: Request) -> _Build:
        self._require_project(request)
        found = self._builds.get(request.parts["build"])
        if found is None:
            raise self.refuse(404, "NOT_FOUND", "Requested entity was not found.")
        return found

    def _list(self, request: Request) -> Reply:
        self._require_project(request)
        found = _FILTER.fullmatch(request.query.get("filter", ""))
        if not found:
            raise self.refuse(400, "INVALID_ARGUMENT", "invalid list filter")
        matching = [build for build in self.builds() if found[1] in build.get("tags", ())]
        return Reply.of({"builds": matching} if matching else {})

    def _cancel(self, request: Request) -> Reply:
        build = self._build(request)
        if build.shown["status"] not in ("QUEUED", "WORKING"):
            raise self.refuse(400, "FAILED_PRECONDITION", "build has already completed")
        build.shown["status"] = "CANCELLED"
        build.commands.stop()
        return Reply.of(build.shown)

    def _publish_log(self, identity: str, build: _Build) -> None:
        where = str(build.shown["logsBucket"]).removeprefix("gs://")
        bucket, _, folder = where.partition("/")
        name = f"{folder}/log-{identity}.txt".lstrip("/")
        self.storage.logs[bucket, name] = lambda: self._read_log(build)

    def _read_log(self, build: _Build) -> bytes:
        content = build.log.read()
        if self.log_missing:
            self.log_missing -= 1
            raise self.refuse(404, "notFound", "No such object")
        if build.shown["status"] not in ("QUEUED", "WORKING") and build.late < self.log_behind:
            build.late += 1
            return content[: len(content) // 2]
        return content

    def _run(self, build: _Build) -> None:
        build.log.write(f'starting build "{build.shown["id"]}"\n\nFETCHSOURCE\n')
        self._enter(build, "WORKING")
        try:
            failure = self._fetch(build) or self._steps(build) or self._push(build)
        except OSError as problem:
            failure = ("FETCH_SOURCE_FAILED", str(problem))
        if failure:
            build.log.write(f"ERROR\nERROR: {failure[1]}\n")
            info = {"failureInfo": {"type": failure[0], "detail": failure[1]}}
            self._enter(build, "FAILURE", finishTime=_now(), **info)
        else:
            build.log.write("DONE\n")
            self._enter(build, "SUCCESS", finishTime=_now())

    def _enter(self, build: _Build, state: str, **more: Any) -> None:
        with self.lock:
            build.shown.update(more)
            if build.shown["status"] != "CANCELLED":
                build.shown["status"] = state

    def _fetch(self, build: _Build) -> tuple[str, str] | None:
        source = build.shown["source"]["storageSource"]
        generation = int(source["generation"]) if source.get("generation") else None
        found = self.storage.read(source["bucket"], source["object"])
        if found is None or generation not in (None, found[0]):
            return ("FETCH_SOURCE_FAILED", "storage: object doesn't exist")
        unpack(found[1], build.folder)
        return None

    def _steps(self, build: _Build) -> tuple[str, str] | None:
        build.log.write(f"BUILD\nAlready have image (with digest): {BUILDER}\n")
        for number, step in enumerate(build.shown["steps"]):
            command = [step.get("entrypoint", "docker"), *map(substituted, step.get("args", []))]
            code = build.commands.run(command, dict(e.split("=", 1) for e in step.get("env", [])))
            if code:
                what = f'build step {number} "{step["name"]}" failed'
                detail = f"{what}: step exited with non-zero status: {code}"
                return ("USER_BUILD_STEP", detail)
        return None

    def _push(self, build: _Build) -> tuple[str, str] | None:
        build.log.write("PUSH\n")
        images = []
        for image in build.shown.get("images", []):
            build.log.write(f"Pushing {image}\n")
            before = len(build.log.read())
            if build.commands.run(["docker", "push", image]):
                return ("PUSH_FAILED", f"failed to push {image}")
            digest = _PUSHED.search(build.log.read()[before:])
            images.append({"name": image, "digest": digest[1].decode() if digest else ""})
        with self.lock:
            build.shown["results"] = {"images": images}
        return None


def _now() -> str:
    return datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")
