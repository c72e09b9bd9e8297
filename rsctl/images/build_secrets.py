"""The secrets of a build: environment variables that BuildKit or Podman mounts into one step.

A mount exists only while its step runs. Its value is in no layer, no history and no key of the
builder's cache. The builder reads it from its own environment, so no command line has it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.job.secret_names import HIDDEN

_SHORTEST = 4
"""Shorter parts of a URL are not hidden: they are user names, and would garble the output."""


def secret_mount(name: str) -> str:
    """The option of RUN that mounts a secret."""
    return f"--mount=type=secret,id={name},required=true \\\n    "


def secret_export(name: str) -> str:
    """The shell's command that reads a mounted secret into its variable."""
    return f'export {name}="$(cat /run/secrets/{name})" && \\\n    '


class BuildSecrets(NamedTuple):
    """The names of the variables that a build gets."""

    names: tuple[str, ...]

    @property
    def options(self) -> list[str]:
        """The options of the build command, which name the variables."""
        return [word for name in self.names for word in ("--secret", f"id={name},env={name}")]

    def require(self, can_mount: bool) -> None:
        """Raise RsctlError if a builder cannot mount secrets, or a variable is not set."""
        if self.names and not can_mount:
            message = "docker's classic builder cannot mount secrets, and a step would keep them"
            remedy = "install Docker's buildx plugin and unset DOCKER_BUILDKIT, or use podman"
            raise RsctlError(
                ExitCode.ENVIRONMENT, error("builder", message, remedy, "image.secrets")
            )
        unset = [name for name in self.names if not os.environ.get(name)]
        if unset:
            message = f"not set in the environment of this build: {', '.join(unset)}"
            remedy = "export each one, or remove it from image.secrets"
            raise RsctlError(ExitCode.USAGE, error("variable", message, remedy, "image.secrets"))

    def hide(self, line: str) -> str:
        """A line of a build's output without the values of the secrets."""
        for text in sorted(self._hidden(), key=len, reverse=True):
            line = line.replace(text, HIDDEN)
        return line

    def _hidden(self) -> set[str]:
        return {text for name in self.names for text in _parts(os.environ.get(name, ""))}


def _parts(value: str) -> Iterator[str]:
    """The texts that give a secret away: its lines and, for URLs, their users or passwords."""
    yield from filter(None, map(str.strip, value.splitlines()))
    for word in value.split():
        user, _, password = word.rpartition("@")[0].rpartition("://")[2].partition(":")
        for part in (password or user, unquote(password or user)):
            if len(part) >= _SHORTEST:
                yield part
