"""The package of a job: its source and rsctl's runtime, as a part of the batch script.

So a job needs neither a bucket nor a second file, whichever way it is submitted.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from typing import Any

from rsctl.findings import Finding, error
from rsctl.images.context import SOURCE, ContextEntry
from rsctl.images.package import Package, package_of
from rsctl.images.runtime_files import runtime_entries
from rsctl.job.job import Job
from rsctl.targets.base import Submission
from rsctl.targets.variables import reducer_count

MOST_BYTES = 3 << 20
"""The most bytes of the packed package. slurmctld takes scripts of 4 MiB by default (slurm.conf(5),
max_script_size), and base64 has four bytes for three."""


def make_payload(job: Job) -> Package:
    """The package; `image.source` is empty in a job without one. Raises RsctlError."""
    # A node that cannot load the compiled core uses the transport's Python engine.
    runtime = runtime_entries("runtime/", has_core=bool(reducer_count(job)))
    return package_of(job.image.source, SOURCE, runtime)


def size_findings(package: Package) -> Iterator[Finding]:
    """An error if the package is too large for a batch script. Raises RsctlError as `packed`."""
    if sum(map(_size, package.context.entries)) <= MOST_BYTES:
        return
    try:
        package.write(_Limited())
    except _TooLarge:
        most = f"{MOST_BYTES >> 20} MiB"
        message = f"the source is more than {most} when it is packed, and a batch script can have "
        remedy = (
            "list files that the script does not need in .dockerignore; put data on the shared "
            "file system, and name it as inputs"
        )
        yield error("package", f"{message}{most} of it", remedy, package.key)


def packed(submission: Submission) -> str:
    """The package in base64, in lines. Raises RsctlError if its files have changed."""
    package, out = submission.package, io.BytesIO()
    assert package is not None  # noqa: S101 - each job of this target has one
    package.write(out)
    return base64.encodebytes(out.getvalue()).decode()


def _size(entry: ContextEntry) -> int:
    """The bytes of a file."""
    return entry.path.stat().st_size if entry.path else len(entry.content or b"")


class _TooLarge(Exception):
    """More bytes than a batch script can have."""


class _Limited(io.BytesIO):
    """A file for as many bytes as a batch script can have. Raises _TooLarge."""

    def write(self, data: Any) -> int:
        written = super().write(data)
        if self.tell() > MOST_BYTES:
            raise _TooLarge
        return written
