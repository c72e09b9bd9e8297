"""The body of Cloud Build's projects.locations.builds.create for a recipe. Pure."""

from __future__ import annotations

from typing import Any

from rsctl.clients.staging import parse_staging
from rsctl.images.recipe import Recipe
from rsctl.images.remote.script import SCRIPT, script_arguments
from rsctl.targets.vertex.options import VertexOptions

BUILDER = "gcr.io/cloud-builders/docker"
"""Google's own build step with a docker client; it reaches the machine's engine."""

_TIMEOUT = "7200s"


def build_request(
    recipe: Recipe, options: VertexOptions, name: str, generation: str
) -> dict[str, Any]:
    """The build of the object `name` in the staging bucket, at one generation of it.

    In arguments Cloud Build would replace `$NAME`, so each `$` is doubled.
    """
    staging = parse_staging(options.staging or "")
    arguments = ["-c", SCRIPT, "rsctl-build", *script_arguments(recipe, push=False)]
    request: dict[str, Any] = {
        "source": {
            "storageSource": {"bucket": staging.bucket, "object": name, "generation": generation}
        },
        "steps": [
            {
                "name": BUILDER,
                "entrypoint": "bash",
                "args": [argument.replace("$", "$$") for argument in arguments],
            }
        ],
        "images": [recipe.reference],
        "tags": ["rsctl", tag_of(recipe)],
        "timeout": _TIMEOUT,
        "logsBucket": f"gs://{staging.bucket}/{staging.folder}logs",
        "options": {"logging": "GCS_ONLY", "logStreamingOption": "STREAM_ON"},
    }
    if options.build_service_account:
        account = f"projects/{options.project}/serviceAccounts/{options.build_service_account}"
        request["serviceAccount"] = account
    return request


def tag_of(recipe: Recipe) -> str:
    """The tag for finding a build again."""
    return f"rsctl-{recipe.digest}"
