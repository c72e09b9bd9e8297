"""The result of a build by CodeBuild: its digest, or its error."""

from __future__ import annotations

from typing import Any

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.images.recipe import Recipe
from rsctl.images.registry.api import DIGEST
from rsctl.images.remote.known_errors import known_failure, service_error
from rsctl.images.remote.log import BuildLog
from rsctl.targets.sagemaker.builder_request import DIGEST as DIGEST_NAME

_BUILD_ROLE = "targets.sagemaker.build_role"
_KNOWN = (
    known_failure(
        "denied",
        "give the build role s3:GetObject on the staging folder",
        "DOWNLOAD_SOURCE",
        path=_BUILD_ROLE,
    ),
    known_failure(
        "denied",
        "give the build role ecr:GetAuthorizationToken and permission to push",
        "PRE_BUILD",
        path=_BUILD_ROLE,
    ),
)
"""By CodeBuild's `phaseType`."""


def digest_of(build: dict[str, Any], recipe: Recipe) -> str:
    """The digest that a successful build has exported. Raises RsctlError if it has not."""
    exported = {
        v.get("name"): v.get("value") for v in build.get("exportedEnvironmentVariables", ())
    }
    digest = exported.get(DIGEST_NAME) or ""
    if not DIGEST.fullmatch(digest):
        message = f"CodeBuild returned no digest for {recipe.reference}"
        raise RsctlError(ExitCode.REFUSED, error("push", message, "run the command again"))
    return str(digest)


def build_error(build: dict[str, Any], recipe: Recipe, log: BuildLog) -> RsctlError:
    """The error of a build that has not succeeded: of the service or of the image itself."""
    phase, detail = _failed_phase(build)
    message = f"CodeBuild failed in phase {phase}: {detail}"
    if known := service_error(_KNOWN, message, str(build.get("buildStatus")), phase):
        return known
    if phase != "BUILD":
        return RsctlError(ExitCode.REFUSED, error("cloud", message, "run the command again"))
    return log.to_error(recipe, f"CodeBuild ({detail})")


def _failed_phase(build: dict[str, Any]) -> tuple[str, str]:
    for phase in build.get("phases", ()):
        if phase.get("phaseStatus") not in (None, "SUCCEEDED", "IN_PROGRESS"):
            detail = "; ".join(str(c.get("message", "")) for c in phase.get("contexts", ()))
            return str(phase.get("phaseType")), (detail or str(phase["phaseStatus"]))[:1000]
    return "unknown", str(build.get("buildStatus"))
