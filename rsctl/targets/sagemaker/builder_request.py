"""The requests to CodeBuild: the project, created once, and the build of a recipe. Pure."""

from __future__ import annotations

import base64
from typing import Any

from rsctl.images.recipe import Recipe
from rsctl.images.remote.script import SCRIPT, script_arguments
from rsctl.targets.sagemaker.options import SageMakerOptions

PROJECT = "rsctl-build"
DIGEST = "RSCTL_DIGEST"
"""The variable in which the build exports the digest."""

BUILDSPEC = f"""\
version: 0.2
env:
  shell: bash
  exported-variables: [{DIGEST}]
phases:
  pre_build:
    commands:
      - |
        read -ra registries <<< "$RSCTL_REGISTRIES"
        for registry in "${{registries[@]}}"; do
          case "$registry" in *.dkr.ecr*.amazonaws.com|*.dkr.ecr*.amazonaws.com.cn)
            region=${{registry#*.dkr.ecr*.}}
            aws ecr get-login-password --region "${{region%%.*}}" |
              docker login --username AWS --password-stdin "$registry" || exit 1 ;;
          esac
        done
  build:
    on-failure: ABORT
    commands:
      - |
        words=()
        while IFS= read -r -d '' word; do words+=("$word"); done \\
          < <(printf %s "$RSCTL_ARGUMENTS" | base64 -d)
        bash -c "$RSCTL_SCRIPT" rsctl-build "${{words[@]}}"
      - export {DIGEST}="$(cat rsctl-digest)"
"""
"""Constant text. The arguments come as base64, each with a zero byte at its end."""

_MACHINES: dict[str | None, tuple[str, str, str]] = {
    "linux/amd64": ("LINUX_CONTAINER", "aws/codebuild/standard:7.0", "BUILD_GENERAL1_MEDIUM"),
    "linux/arm64": (
        "ARM_CONTAINER",
        "aws/codebuild/amazonlinux2-aarch64-standard:3.0",
        "BUILD_GENERAL1_LARGE",  # Arm has SMALL and LARGE only, by AWS's CDK
    ),
}
"""The build environment for a platform: the kind of machine, the image with docker, and its size.
"""
_MINUTES = 120


def project_request(options: SageMakerOptions) -> dict[str, Any]:
    """The parameters of CreateProject."""
    kind, image, size = _MACHINES["linux/amd64"]
    return {
        "name": PROJECT,
        "description": "Builds training images for rsctl; every build supplies its own steps.",
        "source": {"type": "NO_SOURCE", "buildspec": BUILDSPEC},
        "artifacts": {"type": "NO_ARTIFACTS"},
        "environment": {
            "type": kind,
            "image": image,
            "computeType": size,
            "privilegedMode": True,
        },
        "serviceRole": build_role(options),
        "timeoutInMinutes": _MINUTES,
        "tags": [{"key": "created-by", "value": "rsctl"}],
    }


def build_request(
    recipe: Recipe, options: SageMakerOptions, location: str, token: str
) -> dict[str, Any]:
    """The parameters of StartBuild for the archive at `location` (BUCKET/KEY).

    `token` makes a repeated call the same call.
    """
    arguments = script_arguments(recipe, push=True)
    encoded = b"".join(argument.encode() + b"\0" for argument in arguments)
    variables = {
        "RSCTL_REGISTRIES": " ".join(_registries(recipe)),
        "RSCTL_ARGUMENTS": base64.b64encode(encoded).decode(),
        "RSCTL_SCRIPT": SCRIPT,
    }
    kind, image, size = _MACHINES[recipe.platform or "linux/amd64"]
    return {
        "projectName": PROJECT,
        "sourceTypeOverride": "S3",
        "sourceLocationOverride": location,
        "buildspecOverride": BUILDSPEC,
        "environmentTypeOverride": kind,
        "imageOverride": image,
        "computeTypeOverride": size,
        "privilegedModeOverride": True,
        "serviceRoleOverride": build_role(options),
        "timeoutInMinutesOverride": _MINUTES,
        "environmentVariablesOverride": [
            {"name": name, "value": value, "type": "PLAINTEXT"} for name, value in variables.items()
        ],
        "logsConfigOverride": {"cloudWatchLogs": {"status": "ENABLED"}},
        "idempotencyToken": token,
    }


def _registries(recipe: Recipe) -> list[str]:
    """The hosts of the base, of the images in a Dockerfile, and of the repository."""
    names = {name.partition("/")[0] for name in (recipe.base, recipe.repository or "")}
    return sorted(names | (recipe.dockerfile_base.registries if recipe.dockerfile_base else set()))


def build_role(options: SageMakerOptions) -> str:
    """The role for CodeBuild."""
    return options.build_role or options.role or ""
