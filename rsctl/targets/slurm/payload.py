"""The package of a job: its source and rsctl's runtime, as a part of the batch script.

So a job needs neither a bucket nor a second file, whichever way it is submitted.
"""

from __future__ import annotations

import base64
import io

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.images.context import SOURCE
from rsctl.images.package import Package, package_of
from rsctl.images.runtime_files import runtime_entries
from rsctl.job.job import Job
from rsctl.targets.base import Submission
from rsctl.targets.slurm.pools import reducer_count

MOST_BYTES = 3 << 20
"""The most bytes of the packed package. slurmctld takes scripts of 4 MiB by default (slurm.conf(5),
max_script_size), and base64 has four bytes for three."""


def make_payload(job: Job) -> Package:
    """The package; `image.source` is empty in a job without one. Raises RsctlError."""
    # A node that cannot load the compiled core uses the transport's Python engine.
    runtime = runtime_entries("runtime/", has_core=bool(reducer_count(job)))
    return package_of(job.image.source, SOURCE, runtime)


def packed(submission: Submission) -> str:
    """The package in base64, in lines. Raises RsctlError if its files have changed since the plan,
    or are too large for a batch script.
    """
    package, out = submission.package, io.BytesIO()
    assert package is not None  # noqa: S101 - each job of this target has one
    package.write(out)
    if out.tell() > MOST_BYTES:
        message = (
            f"the source is {out.tell() / 2**20:.1f} MiB when it is packed, and a batch script can "
            f"have {MOST_BYTES >> 20} MiB of it"
        )
        remedy = (
            "list files that the script does not need in .dockerignore; put data on the shared "
            "file system, and name it as inputs"
        )
        raise RsctlError(ExitCode.USAGE, error("package", message, remedy, package.key))
    return base64.encodebytes(out.getvalue()).decode()
