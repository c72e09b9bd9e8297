"""Machines with Arm processors, and images for other processors. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rsctl.estimate.catalog import Machine
from rsctl.findings import Finding, error, warning
from rsctl.job.job import Job

_FOR_ARM = re.compile(r"arm64|aarch64|graviton|py3-igpu|/l4t-", re.IGNORECASE)
"""NVIDIA's images -igpu and l4t- are for Jetson."""

_FOR_OTHERS = re.compile(r"amd64|x86[_-]?64", re.IGNORECASE)
_ARM = "linux/arm64"
_BUILD = f"set image.platform: {_ARM}, or use another machine type"
_BRING = f"build an image for {_ARM} and set image.uri to it, or use another machine type"


def architecture_findings(
    job: Job, worker: Machine | None, own_reducers: Machine | None, usual: str | None
) -> Iterator[Finding]:
    """The platforms that the workers' image cannot have; `own_reducers` is rsctl's reducer machine.

    Reducers run the workers' image, which has one architecture; `usual` is the target's platform.
    """
    if worker is None:
        return
    platform = job.image.platform or usual
    if not worker.arm:
        if platform == _ARM and not job.image.uri:
            message = f"{worker.name} has no Arm processors, but the image is for {_ARM}"
            remedy = "remove image.platform, or use a machine type with Arm processors"
            yield error("arm", message, remedy, "image.platform")
        yield from _named_for_arm(job, worker)
        return
    has = f"{worker.name} has Arm processors"
    if own_reducers is not None and not own_reducers.arm:
        message = f"{has}, but {own_reducers.name} does not: reducers run the workers' image"
        yield error("arm", message, "set reducers.count: 0", "reducers.machine")
    uri = job.image.uri
    if not uri:
        if platform != _ARM:
            message = f"{has}, but the image is for {platform}"
            yield error("arm", message, _BUILD, "image.platform")
    elif _FOR_OTHERS.search(uri):
        yield error(
            "arm", f"{has}, but {uri} is not for them according to its name", _BRING, "image.uri"
        )
    elif not _FOR_ARM.search(uri):
        message = f"{has}: the image must be for linux/arm64, and its name does not show that"
        yield warning("arm", message, _BRING, "image.uri")


def _named_for_arm(job: Job, worker: Machine) -> Iterator[Finding]:
    image = str(job.image.uri or job.image.base or "")
    if _FOR_ARM.search(image) and not _FOR_OTHERS.search(image):
        message = f"{image} is for Arm processors according to its name, but {worker.name} has none"
        remedy = "use the image for linux/amd64, or a machine type with Arm processors"
        yield error("arm", message, remedy, "image.uri" if job.image.uri else "image.base")
