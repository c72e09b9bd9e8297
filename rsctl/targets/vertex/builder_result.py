"""The result of a build by Cloud Build: its digest, or its error."""

from __future__ import annotations

from typing import Any

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.images.recipe import Recipe
from rsctl.images.registry.api import DIGEST
from rsctl.images.remote.known_errors import service_error
from rsctl.images.remote.log import BuildLog


def digest_of(build: dict[str, Any], recipe: Recipe) -> str:
    """The digest of what a successful build has pushed. Raises RsctlError if it has none."""
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
    known = service_error(f"Cloud Build: {detail}", status, str(info.get("type")))
    return known or log.to_error(recipe, f"Cloud Build ({detail})")
