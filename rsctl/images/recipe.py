"""The recipe of an image: its Dockerfile and its context. Pure except for reading the files.

Layers that do not depend on the job come first and the source last, so that a change of code
rebuilds one layer. The proof of the transport is the last command: it needs no source.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import msgspec
from msgspec.structs import replace

from rsctl.images.build_secrets import secret_export, secret_mount
from rsctl.images.context import SOURCE, BuildContext, ContextEntry, changed_error, source_entries
from rsctl.images.dockerfile_base import DockerfileBase, dockerfile_base
from rsctl.images.registry.names import parse_repository
from rsctl.images.requirements import MAIN, requirement_entries
from rsctl.images.runtime_files import runtime_entries
from rsctl.images.transport import FRAGMENTS, choose_transport, fragment
from rsctl.job.job import Job
from rsctl.job.values import value_on
from rsctl.target_info import target_info

_PYTHON = b"""#!/bin/sh
# The image's own Python: an active virtual environment, or by its names, or conda's.
for python in "${VIRTUAL_ENV:+$VIRTUAL_ENV/bin/python}" python python3 /opt/conda/bin/python; do
  if command -v "$python" >/dev/null 2>&1; then exec "$python" "$@"; fi
done
echo '{"rsctl": "finding", "severity": "error", "code": "python", \
"message": "the base has no python and no python3", \
"remedy": "take a base with Python, or add python3 and python3-pip to image.apt"}'
exit 3
"""
_LAUNCH = b"""#!/bin/sh
# The node's first process: the runtime under the image's own Python.
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}/opt/rsctl"
exec /usr/local/bin/rsctl-python /opt/rsctl/rsctl_start.py rsctl.node.launch "$@"
"""


class Contents(NamedTuple):
    """The input that determines the text of a Dockerfile."""

    base: str
    env: tuple[tuple[str, str], ...] = ()
    run: tuple[str, ...] = ()
    apt: tuple[str, ...] = ()
    has_requirements: bool = False
    transport: str = "none"
    launcher: str = "torchrun"
    has_source: bool = True
    secrets: tuple[str, ...] = ()

    @property
    def is_launched(self) -> bool:
        """Whether rsctl's runtime is in the image."""
        return self.launcher != "none"


class Recipe(msgspec.Struct, frozen=True):
    """All inputs of a build.

    `digest` is a hash of everything in the image except the labels, so that a commit that changes
    no file of the image does not change its tag. `platform` is None for the engine's own.
    `repository` is where it is pushed, without a tag, or None if it stays on this machine.
    `dockerfile_base` builds the base if that is the user's Dockerfile.
    """

    name: str
    contents: Contents
    context: BuildContext
    platform: str | None
    repository: str | None
    digest: str
    labels: dict[str, str] = {}
    dockerfile_base: DockerfileBase | None = None

    @property
    def base(self) -> str:
        """The image that is built on."""
        return self.contents.base

    @property
    def commands(self) -> tuple[str, ...]:
        """The user's own commands, in their order."""
        return self.contents.run

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the environment variables that the build mounts as secrets."""
        return self.contents.secrets

    @property
    def transport(self) -> str:
        """The transport that is installed."""
        return self.contents.transport

    @property
    def reference(self) -> str:
        """The image's name with its content-addressed tag."""
        return f"{self.repository or 'rsctl/' + self.name}:{self.digest}"

    def with_transport(self, transport: str) -> Recipe:
        """The same image with another transport, with the content of the files at first reading.

        Raises OSError if a file of the transport cannot be read.
        """
        contents = self.contents._replace(transport=transport)
        own = {entry.name for entry in _own_entries(self.contents)}
        others = [entry for entry in self.context.entries if entry.name not in own]
        context = BuildContext([*_own_entries(contents), *others], self.context.left_out)
        digest = context.digest(_inputs(self.platform, contents))
        return replace(self, contents=contents, context=context, digest=digest)

    def dockerfile(self, cache_mounts: bool) -> str:
        """The Dockerfile, for a builder with or without BuildKit's cache mounts."""
        return make_dockerfile(self.contents, cache_mounts)

    def write_context(self, out: IO[bytes], cache_mounts: bool) -> None:
        """Write the context as a tar, the Dockerfile first.

        A file that has changed since the digest was computed is an error. Raises OSError, and
        RsctlError (`changed`).
        """
        dockerfile = ContextEntry("Dockerfile", content=self.dockerfile(cache_mounts).encode())
        self.context.write_unchanged_tar(out, dockerfile)
        if self.context.digest(_inputs(self.platform, self.contents)) != self.digest:
            raise changed_error([dockerfile.name])


def make_recipe(job: Job, target: str) -> Recipe:
    """The recipe of a job's image on a target.

    Raises OSError if a file of it cannot be read, RsctlError if `image.python` cannot be written as
    a requirements file or a `.dockerignore` is wrong.
    """
    image, context = job.image, BuildContext()
    platform = image.platform or target_info(target).platform
    own_base = dockerfile_base(job, platform)
    transport = choose_transport(job, target).transport
    context.entries += requirement_entries(image, "requirements/")
    contents = Contents(
        base=own_base.reference if own_base else str(image.base),
        env=tuple((name, str(value)) for name, value in image.env.items()),
        run=tuple(image.run),
        apt=tuple(image.apt),
        has_requirements=bool(context.entries),
        transport=transport,
        launcher=job.run.launcher,
        has_source=bool(image.source),
        secrets=tuple(sorted(set(image.secrets))),
    )
    context.entries += _own_entries(contents)
    if image.source:
        source, results = Path(image.source), job.local_results
        entries, context.left_out = source_entries(source, SOURCE, results=results)
        context.entries += entries
    return Recipe(
        name=job.name,
        contents=contents,
        context=context,
        platform=platform,
        repository=repository_of(job, target),
        digest=context.digest(_inputs(platform, contents)),
        dockerfile_base=own_base,
    )


def _inputs(platform: str | None, contents: Contents) -> str:
    """The input of the digest besides the files."""
    return f"{platform}\n{make_dockerfile(contents)}"


def repository_of(job: Job, target: str) -> str | None:
    """Where the image of a target is pushed; None if the job names no repository.

    Raises RsctlError if no repository can have that name.
    """
    repository: str | None = value_on(job.image.repository, target)
    if repository:
        parse_repository(repository)
    return repository


def make_dockerfile(contents: Contents, cache_mounts: bool = True) -> str:
    """The Dockerfile as text."""
    return "\n".join(_instructions(contents, cache_mounts)) + "\n"


def _instructions(contents: Contents, cache_mounts: bool) -> Iterator[str]:
    yield f"FROM {contents.base}"
    yield "USER root"
    for name, value in contents.env:
        yield f"ENV {name}={_quoted(value)}"
    for command in contents.run:
        yield f"RUN {command.strip()}"
    if contents.apt:
        yield (
            "RUN apt-get update \\\n"
            " && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \\\n"
            f"      {' '.join(contents.apt)} \\\n"
            " && rm -rf /var/lib/apt/lists/*"
        )
    for name in FRAGMENTS[contents.transport]:
        yield fragment(name).rstrip("\n")
    if contents.is_launched or contents.has_requirements:
        yield "COPY rsctl-python /usr/local/bin/"
    if contents.has_requirements:
        yield "COPY requirements/ /opt/rsctl/requirements/"
        mount = "--mount=type=cache,target=/root/.cache/pip \\\n    " if cache_mounts else ""
        option = "" if cache_mounts else "--no-cache-dir "
        mount += "".join(map(secret_mount, contents.secrets))
        exports = "".join(map(secret_export, contents.secrets))
        yield (
            f"RUN {mount}{exports}PIP_BREAK_SYSTEM_PACKAGES=1 rsctl-python -m pip install {option}"
            f"-r /opt/rsctl/requirements/{MAIN}"
        )
    if contents.is_launched:
        yield "COPY rsctl-launch /usr/local/bin/"
        yield "COPY runtime/ /opt/rsctl/"
    yield "ARG BASE_USER=0"
    yield "USER ${BASE_USER}"
    if contents.is_launched:
        yield 'ENTRYPOINT ["rsctl-launch"]'
        launcher = f"--launcher {contents.launcher}"
        yield f"RUN rsctl-launch --check --transport {contents.transport} {launcher}"
    if contents.has_source:
        yield "COPY --chown=${BASE_USER} source/ /app/"
    yield "WORKDIR /app"


def _quoted(value: str) -> str:
    """A value of ENV in double quotes, in which these alone are special."""
    for special in ("\\", '"', "$"):
        value = value.replace(special, "\\" + special)
    return f'"{value}"'


def _own_entries(contents: Contents) -> list[ContextEntry]:
    """The files of rsctl that the Dockerfile copies."""
    python = ContextEntry("rsctl-python", executable=True, content=_PYTHON)
    if not contents.is_launched:
        return [python] if contents.has_requirements else []
    return [
        python,
        ContextEntry("rsctl-launch", executable=True, content=_LAUNCH),
        ContextEntry("runtime/transport", content=f"{contents.transport}\n".encode()),
        *runtime_entries("runtime/", has_core=contents.transport == "rsctl"),
    ]
