"""The Python version of known container images, by their names, and a warning if it is too old."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple, Optional

import msgspec

from rsctl.estimate.catalog import read_file
from rsctl.findings import Finding, warning
from rsctl.job.job import Job

_HUB = re.compile(r"(?:(?:docker\.io|mirror\.gcr\.io|public\.ecr\.aws/docker)/)?(?:library/)?")
"""Docker Hub, and its mirrors by Google and AWS."""


class _Base(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A pattern of names and the properties of such images; without `python`, the name contains
    it.
    """

    image: str
    python: Optional[str] = None


class _Images(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    runtime_needs: int
    bases: list[_Base]


class TooOld(NamedTuple):
    """The Python of an image that is too old for rsctl's runtime, and the required version."""

    python: str
    needed: str


def check_python(job: Job) -> Iterator[Finding]:
    """A warning for an image in which rsctl's runtime cannot start the job; launcher none needs no
    runtime.
    """
    image = job.image.uri or job.image.base
    if not image or not job.run.is_launched:
        return
    if found := too_old_python(str(image)):
        yield warning(
            "python",
            f"{image} has Python {found.python} according to its name, but rsctl's runtime needs "
            f"{found.needed} or newer",
            "take an image with a newer Python, such as "
            "pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime (docs/guides/vertex-ai.md names "
            "others), or use launcher none",
            "image.uri" if job.image.uri else "image.base",
        )


def too_old_python(image: str) -> TooOld | None:
    """The Python of an image that is too old by the image's name; None if it is not, or unknown."""
    known = _images()
    python = _python_of(image, known.bases)
    if python is None or _newest_minor(python) >= known.runtime_needs:
        return None
    return TooOld(python, f"3.{known.runtime_needs}")


def _python_of(image: str, bases: list[_Base]) -> str | None:
    name = image.partition("@")[0]
    name = name[_HUB.match(name).end() :]  # type: ignore[union-attr]  # it may match nothing
    for base in bases:
        if found := re.fullmatch(base.image, name):
            return base.python or f"3.{found['minor']}"
    return None


def _newest_minor(python: str) -> int:
    """10 for `3.10`, 8 for `3.7 or 3.8`."""
    return max(int(minor) for minor in re.findall(r"3\.(\d+)", python))


@lru_cache
def _images() -> _Images:
    return read_file("rsctl.estimate.catalog:images.yaml", _Images)
