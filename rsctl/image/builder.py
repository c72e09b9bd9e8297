"""Builds an image with the docker command, unless the same content has been built before."""

from __future__ import annotations

import subprocess
import tempfile
from collections import deque
from collections.abc import Callable
from typing import IO

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.image.recipe import Recipe

_LAST_LINES = 12


def is_built(recipe: Recipe) -> bool:
    """Whether the engine has the image already."""
    command = ["docker", "image", "inspect", "--format", "{{.Id}}", recipe.reference]
    done = subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    return done.returncode == 0


def build(recipe: Recipe, say: Callable[[str], None]) -> None:
    """Build the image; `say` gets docker's progress line by line.

    Raises RsctlError with the last lines if it fails.
    """
    last: deque[str] = deque(maxlen=_LAST_LINES)
    with tempfile.TemporaryFile() as tar:
        _write_context(recipe, tar)
        tar.seek(0)
        command = ["docker", "build", "--tag", recipe.reference, "-"]
        with subprocess.Popen(
            command, stdin=tar, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as docker:
            for raw in docker.stdout or ():
                last.append(raw.decode(errors="replace").rstrip())
                say(last[-1])
    if docker.returncode:
        raise _build_failed(recipe, list(last))


def _write_context(recipe: Recipe, tar: IO[bytes]) -> None:
    try:
        recipe.context.write_tar(tar)
    except OSError as problem:
        message = f"cannot copy the build's files to {tempfile.gettempdir()}: {problem}"
        remedy = "free space there, and do not change the files while they are copied"
        raise RsctlError(ExitCode.ENVIRONMENT, error("context", message, remedy)) from None


def _build_failed(recipe: Recipe, last: list[str]) -> RsctlError:
    said = "\n".join(f"  {line}" for line in last)
    return RsctlError(
        ExitCode.ENVIRONMENT,
        error(
            "build",
            f"docker could not build {recipe.reference}; its last lines:\n{said}",
            "correct image.base, image.apt or image.python; check docker's network and disk",
            "image",
        ),
    )
