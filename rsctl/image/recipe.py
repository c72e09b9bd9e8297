"""`image:` to a Dockerfile, and the files that it copies. Pure but for reading those files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.image.context import Context, Entry, runtime_entries, source_entries
from rsctl.spec.job import Image, Job

_PYTHON = '"$(command -v python || command -v python3)"'
_LAUNCH = b"""#!/bin/sh
# The node's first process: the runtime under the image's own Python.
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}/opt/rsctl"
exec "$(command -v python || command -v python3)" -m rsctl.runtime.launch "$@"
"""


@dataclass(frozen=True)
class Recipe:
    """All that a build needs. `reference` is the image's name with its content-addressed tag."""

    dockerfile: str
    context: Context
    reference: str


def make_recipe(job: Job) -> Recipe:
    """The recipe of a job's image.

    Raises OSError if a file of it cannot be read, RsctlError if what it says cannot be written as
    a requirements file or a `.dockerignore` is wrong.
    """
    dockerfile = make_dockerfile(job.image)
    context = Context()
    context.entries.append(Entry("Dockerfile", content=dockerfile.encode()))
    if job.image.python:
        context.entries.append(Entry("requirements.txt", content=_requirements(job.image)))
    context.entries.append(Entry("rsctl-launch", executable=True, content=_LAUNCH))
    context.entries += runtime_entries("runtime/")
    if job.image.source:
        entries, context.left_out = source_entries(Path(job.image.source), "source/")
        context.entries += entries
    return Recipe(dockerfile, context, f"rsctl/{job.name}:{context.digest()}")


def make_dockerfile(image: Image) -> str:
    """The Dockerfile, with the source last so that a change of code rebuilds one layer."""
    return "\n".join(_instructions(image)) + "\n"


def _instructions(image: Image) -> Iterator[str]:
    yield f"FROM {image.base}"
    if image.apt:
        packages = " ".join(image.apt)
        yield (
            "RUN apt-get update \\\n"
            f" && apt-get install -y --no-install-recommends {packages} \\\n"
            " && rm -rf /var/lib/apt/lists/*"
        )
    if image.python:
        yield "COPY requirements.txt /opt/rsctl/requirements.txt"
        yield f"RUN {_PYTHON} -m pip install --no-cache-dir -r /opt/rsctl/requirements.txt"
    yield "COPY rsctl-launch /usr/local/bin/rsctl-launch"
    yield "COPY runtime/ /opt/rsctl/"
    yield "WORKDIR /app"
    yield 'ENTRYPOINT ["rsctl-launch"]'
    if image.source:
        yield "COPY source/ /app/"


def _requirements(image: Image) -> bytes:
    if isinstance(image.python, list):
        return "".join(map(_requirement, image.python)).encode()
    return Path(str(image.python)).read_bytes()


def _requirement(text: str) -> str:
    """One line of a requirements file; pip would take a line break for the end of one."""
    if len(text.splitlines()) > 1 or text.endswith("\\"):
        message = f"expected one requirement on one line, got {text!r}"
        finding = error("requirement", message, "list each by itself", "image.python")
        raise RsctlError(ExitCode.USAGE, finding)
    return text.strip() + "\n"
