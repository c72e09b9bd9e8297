"""Cloud Build by REST: upload, start once, follow, and end with the digest."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlsplit

from rsctl.clients.endpoints import Endpoints
from rsctl.clients.errors import NoAnswer, no_answer
from rsctl.clients.google import Google, body_of
from rsctl.clients.retries import RetryPolicy
from rsctl.clients.staging import parse_staging
from rsctl.clients.storage.google import GoogleBucket
from rsctl.findings import ExitCode, RsctlError, error, note
from rsctl.images.events import BuildEvent
from rsctl.images.recipe import Recipe
from rsctl.images.remote.archive import object_name, pack_context
from rsctl.images.remote.log import BuildLog
from rsctl.targets.vertex.builder_request import build_request, tag_of
from rsctl.targets.vertex.builder_result import build_error, digest_of
from rsctl.targets.vertex.options import VertexOptions

Build = dict[str, Any]

_FIELD = "targets.vertex"
_RUNNING = ("PENDING", "QUEUED", "WORKING")
_QUIET_POLLS = 5
_LAST_LINES = ("DONE", "ERROR", "CANCELLED", "TIMEOUT", "EXPIRED")
_ID = re.compile(r"[A-Za-z0-9-]{1,64}")


class CloudBuild:
    """Builds in one project and region. Needs `project`, `region` and `staging`."""

    def __init__(self, options: VertexOptions, endpoints: Endpoints) -> None:
        self._options = options
        self._staging = parse_staging(options.staging or "")
        self._retries = RetryPolicy.of(endpoints)
        self._google = Google(endpoints)
        self._storage = GoogleBucket(endpoints, self._staging.bucket, "targets.vertex.staging")
        path = (
            f"projects/{quote(options.project or '', '')}/locations/{options.first_region}/builds"
        )
        self._builds = f"{endpoints.google_url('cloudbuild')}/v1/{path}"

    def build(self, recipe: Recipe, show: Callable[[BuildEvent], None]) -> str:
        """Build and push; the digest. Raises RsctlError.

        If a build of the same recipe is in progress, it is followed instead of starting another.
        Only a build that this call started is cancelled by Ctrl-C, and with its run.
        """
        log = BuildLog(show)
        before = self._find(recipe)
        build = next((b for b in before if b["status"] in _RUNNING), None)
        is_ours = build is None
        if build is None:
            build = self._start(recipe, log, {_id(b) for b in before})
        try:
            log.add_line(f"Cloud Build {_id(build)}: {build.get('logUrl', '')}")
            end = self._follow(_id(build), log)
        except KeyboardInterrupt:
            if is_ours:
                self._cancel(_id(build))
            raise
        except RsctlError as problem:
            if problem.exit_code is ExitCode.CANCELLED:
                if is_ours:
                    self._cancel(_id(build))
                raise
            message = f"build {_id(build)} may still run"
            joinable = note("build-runs", message, "run the command again to join it")
            raise RsctlError(problem.exit_code, *problem.findings, joinable) from None
        if end["status"] != "SUCCESS":
            raise build_error(end, recipe, log)
        return digest_of(end, recipe)

    def _start(self, recipe: Recipe, log: BuildLog, before: set[str]) -> Build:
        """The build that was started; after a lost answer, the build that did not exist before.

        So a lost answer never starts a second build.
        """
        with pack_context(recipe) as context:
            log.add_line(
                f"uploading the context to gs://{self._staging.bucket}, {context.size} bytes"
            )
            name = self._staging.folder + object_name(context)
            generation = self._storage.put(name, context)
        request = build_request(recipe, self._options, name, generation)
        for attempt in range(1, self._retries.tries + 1):
            if build := self._create(request):
                return build
            self._retries.before_retry(attempt)
            if build := next((b for b in self._find(recipe) if _id(b) not in before), None):
                return build
        raise no_answer(urlsplit(self._builds).netloc, "the build could not be started")

    def _create(self, request: dict[str, Any]) -> Build | None:
        """The build, or None if it is unknown whether it was created."""
        try:
            answer = self._google.request(
                "POST", self._builds, retry=False, path=_FIELD, json=request
            )
            build: Build = body_of(answer, "metadata")["metadata"]["build"]
        except NoAnswer:
            return None
        return build

    def _find(self, recipe: Recipe) -> list[Build]:
        """The last builds of this image, the newest first."""
        answer = self._google.request(
            "GET",
            self._builds,
            path=_FIELD,
            params={"filter": f'tags="{tag_of(recipe)}"', "pageSize": "50"},
        )
        builds: list[Build] = body_of(answer).get("builds", [])
        return [build for build in builds if recipe.reference in build.get("images", ())]

    def _follow(self, build: str, log: BuildLog) -> Build:
        """Show the log until the build has ended and its log is complete."""
        name, read, quiet = f"{self._staging.folder}logs/log-{build}.txt", 0, 0
        for _ in self._retries.polls():
            log.check()
            answer = self._google.request("GET", f"{self._builds}/{build}")
            state: Build = body_of(answer, "status")
            quiet += 1
            while block := self._storage.read(name, read):
                read, quiet = read + len(block), 0
                log.feed(block)
            ended = state["status"] not in _RUNNING
            if ended and (log.ends_with(_LAST_LINES) or quiet >= _QUIET_POLLS):
                break
        log.end()
        return state

    def _cancel(self, build: str) -> None:
        self._google.request("POST", f"{self._builds}/{build}:cancel", ok=(200, 400, 404), json={})


def _id(build: Build) -> str:
    identity = str(build.get("id", ""))
    if not _ID.fullmatch(identity):
        message = f"Cloud Build returned a build without a usable ID: {identity[:100]!r}"
        raise RsctlError(ExitCode.REFUSED, error("cloud", message, "try again later"))
    return identity
