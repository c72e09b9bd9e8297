"""What Cloud Build's create refuses.

With the package google-cloud-build the body is read by Google's own proto, which refuses unknown
fields, wrong types and enums. The rest is from the documentation of the API and of its limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from tests.kit.builders.commands import redirecting

_MOST_ARGS = 100
_LONGEST_ARG = 10_000
_TAG = re.compile(r"[\w][\w.-]{0,127}")
_DURATION = re.compile(r"\d+(\.\d{1,9})?s")
_BUILTIN = ("PROJECT_ID", "PROJECT_NUMBER", "LOCATION", "BUILD_ID")
_VARIABLE = re.compile(r"\$\$|\$\{?([A-Za-z_]\w*)\}?")


def problems(build: dict[str, Any]) -> Iterator[str]:
    """What is wrong with a Build, one sentence each."""
    yield from _by_proto(build)
    steps = build.get("steps") or []
    if not steps:
        yield "invalid build: no build steps are specified"
    for step in steps:
        args = step.get("args", [])
        if not step.get("name"):
            yield "invalid build step name: a name is required"
        if len(args) > _MOST_ARGS or any(len(arg) > _LONGEST_ARG for arg in args):
            yield "invalid build: too many arguments, or one that is too long"
        if any("=" not in variable for variable in step.get("env", [])):
            yield "invalid build: a step's env is a list of NAME=VALUE"
        if name := redirecting(variable.partition("=")[0] for variable in step.get("env", [])):
            yield f"not emulated: a step's variable {name}, which this machine's programs heed"
        if step.get("script") and (args or step.get("entrypoint")):
            yield "invalid build: script cannot be used with args or entrypoint"
    for tag in build.get("tags", []):
        if not _TAG.fullmatch(tag):
            yield f"invalid tag: {tag!r}"
    if not _DURATION.fullmatch(build.get("timeout", "600s")):
        yield "invalid timeout"
    if not str(build.get("logsBucket", "gs://")).startswith("gs://"):
        yield "invalid bucket name for logsBucket"
    logging = build.get("options", {}).get("logging")
    if build.get("serviceAccount") and not (
        build.get("logsBucket") or logging in ("CLOUD_LOGGING_ONLY", "NONE")
    ):
        yield "if 'build.service_account' is specified, the build must name where its logs go"


def substituted(text: str) -> str:
    """An argument with `$$` and the built-in variables replaced. Raises ValueError for others."""

    def one(match: re.Match[str]) -> str:
        if match[1] is None:
            return "$"
        if match[1] in _BUILTIN:
            return match[1].lower()
        raise ValueError(f'key in the template "{match[1]}" is not a valid built-in substitution')

    return _VARIABLE.sub(one, text)


def _by_proto(build: dict[str, Any]) -> Iterator[str]:
    try:
        cloudbuild = import_module("google.cloud.devtools.cloudbuild_v1.types.cloudbuild")
        json_format = import_module("google.protobuf.json_format")
    except ImportError:
        return
    try:
        json_format.ParseDict(build, cloudbuild.Build.pb()())
    except json_format.ParseError as problem:
        yield f"Invalid JSON payload received. {problem}"
