"""The body of Cloud Build's projects.locations.builds.create for a recipe. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

from rsctl.image.recipe import Recipe
from rsctl.image.remote.script import SCRIPT, script_arguments
from rsctl.spec.options import VertexOptions

BUILDER = "gcr.io/cloud-builders/docker"
"""Google's own build step with a docker client; it reaches the machine's engine."""

_TIMEOUT = "7200s"


class Staging(NamedTuple):
    """A bucket and the folder in it, empty or with a `/` at its end."""

    bucket: str
    folder: str


def staging_of(uri: str) -> Staging:
    """`gs://BUCKET/FOLDER` or `s3://BUCKET/FOLDER` in its parts."""
    bucket, _, folder = uri.partition("://")[2].partition("/")
    folder = folder.strip("/")
    return Staging(bucket, f"{folder}/" if folder else "")


def build_request(
    recipe: Recipe, options: VertexOptions, name: str, generation: str
) -> dict[str, Any]:
    """The build of the object `name` in the staging bucket, at one generation of it.

    In arguments Cloud Build would replace `$NAME`, so each `$` is doubled.
    """
    staging = staging_of(options.staging or "")
    words = ["-c", SCRIPT, "rsctl-build", *script_arguments(recipe, push=False)]
    request: dict[str, Any] = {
        "source": {
            "storageSource": {"bucket": staging.bucket, "object": name, "generation": generation}
        },
        "steps": [
            {
                "name": BUILDER,
                "entrypoint": "bash",
                "args": [word.replace("$", "$$") for word in words],
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
    """The tag that a build is found again by."""
    return f"rsctl-{recipe.digest}"
