"""Checks of the block `image` of a spec that do not depend on the target.

Each value in a Dockerfile must stay one line of one instruction, regardless of the author of the
job file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rsctl.findings import Finding, error
from rsctl.job.env_checks import check_visible_env, visible_secret
from rsctl.job.job import Image, Job
from rsctl.job.secret_names import shows_secret

_OF_BUILDS = (
    *("base", "dockerfile", "env", "run", "python", "secrets", "apt", "repository", "platform"),
)
_OF_A_SYSTEM = re.compile(
    r"PATH|HOME|SHELL|PWD|TMPDIR|IFS|ENV|BASH_ENV|LD_\w+|PYTHON(?:HOME|PATH|USERBASE)"
)
"""Variables by which a shell or Python finds its files; an image has its own values."""

_OWN_FILE = "write it in a Dockerfile and set image.dockerfile"


def check_image(job: Job) -> Iterator[Finding]:
    """Findings on `image`, `source` beside `uri` among them."""
    image = job.image
    if image.uri:
        yield from _check_uri(image)
        yield from _check_source_of_own_image(job)
        return
    if image.base and image.dockerfile:
        message = "base and dockerfile are given, but an image has only one base"
        yield error("image", message, "remove one of the two", "image.dockerfile")
    yield from check_visible_env(image.env, "image.env", "in the image")
    yield from _check_env_values(image)
    yield from _check_secrets(image)
    for index, command in enumerate(image.run):
        yield from _check_command(command, f"image.run[{index}]")
    for name, texts in (("run", image.run), ("python", image.python)):
        for index, text in enumerate(texts if isinstance(texts, list) else ()):
            if shows_secret(text):
                yield visible_secret("it", f"image.{name}[{index}]")


def _check_uri(image: Image) -> Iterator[Finding]:
    for name in _OF_BUILDS:
        if getattr(image, name):
            message = f"image.uri is used without changes, so image.{name} has no effect"
            yield error("image", message, "remove one of the two", f"image.{name}")
    if image.transport not in ("auto", "none"):
        yield error(
            "image",
            "image.uri is used without changes, so no transport is added",
            "build with image.base, or remove image.transport",
            "image.transport",
        )


def _check_source_of_own_image(job: Job) -> Iterator[Finding]:
    """`image.source` beside `image.uri` is sent with the job, and unpacked by its launcher."""
    if job.image.source and job.run.launcher == "none" and job.run.package is None:
        message = (
            "launcher none does not run rsctl-launch in the container, and only rsctl-launch "
            "unpacks image.source there"
        )
        remedy = "use launcher once or torchrun, or remove image.source"
        yield error("image", message, remedy, "image.source")


def _check_secrets(image: Image) -> Iterator[Finding]:
    if image.secrets and not (image.python or image.dockerfile):
        message = "no step of the build reads secrets: only image.python and image.dockerfile do"
        yield error("image", message, "set one of them, or remove secrets", "image.secrets")
    for name in sorted(set(image.secrets) & set(image.env)):
        message = f"{name} is also in image.env, where anyone can read it in the image"
        yield error("image", message, "remove one of the two", f"image.env.{name}")
    for index, name in enumerate(image.secrets):
        if _OF_A_SYSTEM.fullmatch(name):
            message = f"this machine's {name} would replace the image's in the step that reads it"
            remedy = "remove it; set another value for the image in image.env"
            yield error("image", message, remedy, f"image.secrets[{index}]")


def _check_env_values(image: Image) -> Iterator[Finding]:
    for name, value in image.env.items():
        path = f"image.env.{name}"
        if not value.isprintable():
            message = f"{name} has a line break or another control character"
            remedy = "write it on one line, or set it in run.env"
            yield error("env", message, remedy, path)
        elif re.search(rf"\$\{{?{name}\b", value):
            message = f"values are taken literally, so {name} would contain its own name"
            yield error("env", message, f"write the whole value, or {_OWN_FILE}", path)


def _check_command(command: str, path: str) -> Iterator[Finding]:
    """Findings on a command that would not end with its line, or is not a command."""
    if not command.strip():
        yield error(
            "command", "the item contains no command", "write one, or remove the item", path
        )
    elif not command.replace("\t", " ").isprintable():
        message = "expected a command on one line, without control characters"
        yield error("command", message, "write each command as a separate item", path)
    elif command.rstrip().endswith("\\"):
        message = "a backslash at the end would join the next instruction to the command"
        yield error("command", message, "remove it, or write the command on one line", path)
    elif re.search(r"(?<!<)<<(?!<)", command):
        message = "a here-document (<<) would take the next instructions as its text"
        yield error("command", message, f"use printf, or {_OWN_FILE}", path)
    elif command.lstrip().startswith("--"):
        message = "not all builders support options of RUN, and this is not a command"
        yield error("command", message, f"begin with the command, or {_OWN_FILE}", path)
