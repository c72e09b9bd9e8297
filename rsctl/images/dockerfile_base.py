"""The base that the user's Dockerfile builds, in a separate build before the recipe's.

Two builds instead of one text: docker itself reads the user's file, including its special syntax
(`# syntax` and `# escape`, ARG before FROM, stages, here-documents), and its result is a base as
any other, whose user can be looked up and whose platform can be checked.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import IO

import msgspec

from rsctl.images.context import BuildContext, ContextEntry, source_entries
from rsctl.images.dockerignore import Dockerignore
from rsctl.job.job import Image, Job

DOCKERFILE = ".rsctl-dockerfile"
"""The file's name in its context, chosen so that it matches no other file and no `.dockerignore`.
"""

_REPOSITORY = "rsctl/dockerfile"
_ECR = re.compile(rb"\b[0-9]{12}\.dkr\.ecr[a-z0-9.-]*\.amazonaws\.com(?:\.cn)?\b")


class DockerfileBase(msgspec.Struct, frozen=True):
    """A Dockerfile with its context; Its COPY instructions are relative to `folder`."""

    path: str
    folder: str
    context: BuildContext
    digest: str

    @property
    def reference(self) -> str:
        """The image that it builds: a hash of all its inputs, and of its platform."""
        return f"{_REPOSITORY}:{self.digest}"

    @property
    def registries(self) -> set[str]:
        """The registries of ECR that it names, which a build in the cloud has to log in to."""
        with self.context.entries[0].open() as file:
            return {host.decode() for host in _ECR.findall(file.read())}

    def write_context(self, out: IO[bytes]) -> None:
        """Write the context as a tar. Raises OSError, and RsctlError (`changed`)."""
        self.context.write_unchanged_tar(out)


def dockerfile_base(job: Job, platform: str | None) -> DockerfileBase | None:
    """The base of a job's image with a Dockerfile, built for `platform`; None for one without.

    Raises OSError for a file that cannot be read, RsctlError for a wrong ignore file.
    """
    image = job.image
    if not image.dockerfile:
        return None
    path, folder = Path(image.dockerfile), _folder(image)
    ignore = _ignore(path, folder)
    entries, left_out = source_entries(folder, "", ignore, results=job.local_results)
    own = ContextEntry(DOCKERFILE, path=path)
    context = BuildContext([own, *(entry for entry in entries if entry.name)], left_out)
    digest = context.digest(f"{platform}\n")
    return DockerfileBase(str(path), str(folder), context, digest)


def _folder(image: Image) -> Path:
    """The source if it contains the Dockerfile, as with `docker build -f FILE .`, otherwise its own
    folder.
    """
    path = Path(str(image.dockerfile))
    source = image.source and os.path.abspath(image.source)
    return Path(source) if source and path.is_relative_to(source) else path.parent


def _ignore(path: Path, folder: Path) -> Dockerignore:
    """The Dockerfile's own ignore file takes precedence over the folder's, as in BuildKit."""
    own = path.with_name(f"{path.name}.dockerignore")
    return Dockerignore.from_file(own) if own.is_file() else Dockerignore.of(folder)
