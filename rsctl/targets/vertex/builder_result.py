"""The result of a build by Cloud Build: its digest, or its error."""

from __future__ import annotations

from typing import Any

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.images.recipe import Recipe
from rsctl.images.registry.api import DIGEST
from rsctl.images.remote.known_errors import known_failure, service_error
from rsctl.images.remote.log import BuildLog

_REPOSITORY = "image.repository"
_STAGING = "targets.vertex.staging"
_KNOWN = (
    known_failure(
        "push",
        "create the repository: `gcloud artifacts repositories create NAME "
        "--repository-format=docker --location=LOCATION`, and check image.repository",
        "PUSH_FAILED",
        path=_REPOSITORY,
    ),
    known_failure("push", "run the command again", "PUSH_IMAGE_NOT_FOUND"),
    known_failure(
        "denied",
        "give the build's service account roles/artifactregistry.writer on the repository",
        "PUSH_NOT_AUTHORIZED",
        path=_REPOSITORY,
    ),
    known_failure(
        "denied",
        "give the build's service account roles/storage.admin on the staging bucket",
        "LOGGING_FAILURE",
        path=_STAGING,
    ),
    known_failure(
        "denied",
        "give the build's service account roles/storage.objectViewer on the staging bucket",
        "FETCH_SOURCE_FAILED",
        path=_STAGING,
    ),
)
"""By Cloud Build's `FailureInfo.FailureType`."""


def digest_of(build: dict[str, Any], recipe: Recipe) -> str:
    """The image digest that a successful build has pushed. Raises RsctlError if it has none."""
    for image in build.get("results", {}).get("images", ()):
        if image.get("name") == recipe.reference and DIGEST.fullmatch(image.get("digest", "")):
            return str(image["digest"])
    message = f"Cloud Build returned no digest for {recipe.reference}"
    raise RsctlError(ExitCode.REFUSED, error("push", message, "run the command again"))


def build_error(build: dict[str, Any], recipe: Recipe, log: BuildLog) -> RsctlError:
    """The error of a build that has not succeeded."""
    status = str(build["status"])
    info = build.get("failureInfo") or {}
    detail = str(info.get("detail") or build.get("statusDetail") or status)[:1000]
    known = service_error(_KNOWN, f"Cloud Build: {detail}", status, str(info.get("type")))
    return known or log.to_error(recipe, f"Cloud Build ({detail})")
