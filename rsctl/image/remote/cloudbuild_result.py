"""The result of a build by Cloud Build: its digest, or its error."""

from __future__ import annotations

import re
from typing import Any

from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.image.recipe import Recipe
from rsctl.image.remote.log import BuildLog

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

_KNOWN_ERRORS = {
    "PUSH_FAILED": (
        "push",
        "create the repository: `gcloud artifacts repositories create NAME "
        "--repository-format=docker --location=LOCATION`, and check image.repository",
        "image.repository",
    ),
    "PUSH_IMAGE_NOT_FOUND": ("push", "run the command again", None),
    "PUSH_NOT_AUTHORIZED": (
        "denied",
        "give the build's service account roles/artifactregistry.writer on the repository",
        "image.repository",
    ),
    "LOGGING_FAILURE": (
        "denied",
        "give the build's service account roles/storage.admin on the staging bucket",
        "targets.vertex.staging",
    ),
    "FETCH_SOURCE_FAILED": (
        "denied",
        "give the build's service account roles/storage.objectViewer on the staging bucket",
        "targets.vertex.staging",
    ),
}
"""By FailureInfo.FailureType of the API: code, remedy, field."""


def digest_of(build: dict[str, Any], recipe: Recipe) -> str:
    """The digest of what a successful build has pushed. Raises RsctlError if it has none."""
    for image in build.get("results", {}).get("images", ()):
        if image.get("name") == recipe.reference and DIGEST.fullmatch(image.get("digest", "")):
            return str(image["digest"])
    message = f"Cloud Build names no digest for {recipe.reference}"
    raise RsctlError(ExitCode.REFUSED, error("push", message, "run the command again"))


def build_error(build: dict[str, Any], recipe: Recipe, log: BuildLog) -> RsctlError:
    """The error of a build that has not succeeded."""
    status = str(build["status"])
    info = build.get("failureInfo") or {}
    detail = str(info.get("detail") or build.get("statusDetail") or status)[:1000]
    if status == "CANCELLED":
        finding = error("build-cancelled", "the build was cancelled", "run the command again")
        return RsctlError(ExitCode.CANCELLED, finding)
    if status in ("TIMEOUT", "EXPIRED"):
        message = f"Cloud Build gave the build up: {detail}"
        remedy = "build on a machine with Docker, or take a base that has more of it installed"
        return RsctlError(ExitCode.TIMED_OUT, error("build-timeout", message, remedy))
    if str(info.get("type")) in _KNOWN_ERRORS:
        return RsctlError(ExitCode.REFUSED, _known_error(str(info["type"]), detail))
    return log.failure.to_error(recipe.reference, recipe.base, f"Cloud Build ({detail})")


def _known_error(kind: str, detail: str) -> Finding:
    code, remedy, path = _KNOWN_ERRORS[kind]
    return error(code, f"Cloud Build: {detail}", remedy, path)
