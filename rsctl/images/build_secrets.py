"""The secrets of a build: environment variables that BuildKit or Podman mounts into one step.

A mount exists only while its step runs. Its value is in no layer, no history and no key of the
builder's cache. The builder reads it from its own environment, so no command line has it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, unquote

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.images.commands import CUT
from rsctl.job.secret_names import HIDDEN
from rsctl.runs.stream.sanitize import sanitize_line

_SHORTEST = 3
"""Shorter texts are not hidden: they are in all lines, and what is hidden would tell them."""

_GENERATED = 16
_LONGEST_USER = 19
"""A longer user of a URL is a token, as in `https://TOKEN:x-oauth-basic@HOST`."""


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
        """A line of a build's output without the values of the secrets, also if it is cut within
        one.
        """
        texts = _texts(tuple(os.environ.get(name, "") for name in self.names))
        for text in texts:
            line = line.replace(text, HIDDEN)
        return _without_begun(line, texts) if line.endswith(CUT) else line


@lru_cache(maxsize=1)
def _texts(values: tuple[str, ...]) -> list[str]:
    """The texts that are hidden, the longest first."""
    texts = {text for value in values for part in _parts(value) for text in _spellings(part)}
    return sorted(texts, key=len, reverse=True)


def _parts(value: str) -> Iterator[str]:
    """The texts that give a secret away: its lines, generated words such as a netrc's, the lines of
    a key in JSON, and, for URLs, users, passwords and generated parts of paths.
    """
    lines = map(str.strip, value.splitlines())
    yield from (line for line in lines if len(line) >= _SHORTEST)
    yield from (part for part in value.split("\\n") if len(part) >= _GENERATED)
    for word in value.split():
        after = word.partition("://")[2]
        user, _, password = word.rpartition("@")[0].rpartition("://")[2].partition(":")
        found = {password or user, *(text for text in (user,) if len(text) > _LONGEST_USER)}
        yield from (part for part in found if len(part) >= _SHORTEST)
        for part in (word, *re.split(r"[/?&=#]", after.partition("/")[2])):
            if len(part) >= _GENERATED and re.search(r"\d", part):
                yield part


def _spellings(text: str) -> Iterator[str]:
    """A text as programs print it: as it is, in a URL, in JSON, quoted for a shell, on a terminal,
    or with bytes that are not UTF-8.
    """
    yield text
    yield unquote(text)
    yield from (quote(text, safe, errors="surrogateescape") for safe in ("", "/"))
    yield json.dumps(text)[1:-1]
    yield shlex.quote(text).strip("'")
    yield os.fsencode(text).decode(errors="replace")
    yield sanitize_line(text)


def _without_begun(line: str, texts: list[str]) -> str:
    """A line that is cut, without the begin of a secret at its end."""
    kept = line.removesuffix(CUT)
    for text in texts:
        for size in range(len(text) - 1, _SHORTEST - 1, -1):
            if kept.endswith(text[:size]):
                return f"{kept[:-size]}{HIDDEN}{CUT}"
    return line
