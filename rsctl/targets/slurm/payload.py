"""The package of a job: its source and rsctl's runtime, as a part of the batch script.

So a job needs neither a bucket nor a second file, whichever way it is submitted.
"""

from __future__ import annotations

import base64
import io
from pathlib import Path

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.images.context import BuildContext, ContextEntry, source_entries
from rsctl.images.package import Package, without_lost_links, write_tar
from rsctl.images.runtime_files import runtime_entries
from rsctl.job.job import Job
from rsctl.targets.base import Submission
from rsctl.targets.slurm.pools import reducer_count

_SOURCE = "source/"
MOST_BYTES = 3 << 20
"""The most bytes of the packed package. slurmctld takes scripts of 4 MiB by default (slurm.conf(5),
max_script_size), and base64 has four bytes for three."""


def make_payload(job: Job) -> Package:
    """The package; `image.source` is empty in a job without one. Raises RsctlError."""
    try:
        # A node that cannot load the compiled core uses the transport's Python engine.
        entries = runtime_entries("runtime/", has_core=bool(reducer_count(job)))
        if job.image.source is None:
            context = BuildContext([*entries, ContextEntry(_SOURCE.rstrip("/"))])
        else:
            folder = str(job.image.source)
            source, left_out = source_entries(Path(folder), _SOURCE)
            inside, lost = without_lost_links(source, folder, _SOURCE)
            context = BuildContext(entries + inside, left_out + lost)
        return Package(context, write_tar(context))
    except OSError as problem:
        raise _unreadable(problem) from None


def packed(submission: Submission) -> str:
    """The package in base64, in lines. Raises RsctlError if its files have changed since the plan,
    or are too large for a batch script.
    """
    package, out = submission.package, io.BytesIO()
    assert package is not None  # noqa: S101 - each job of this target has one
    try:
        written = package.write(out)
    except OSError as problem:
        raise _unreadable(problem) from None
    if written != package.digest:
        message = "files changed while the job was being submitted"
        remedy = "submit the job again; list files that other programs write in .dockerignore"
        finding = error("package", message, remedy, package.key)
        raise RsctlError(ExitCode.ENVIRONMENT, finding)
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


def _unreadable(problem: OSError) -> RsctlError:
    message = f"cannot read {problem.filename}: {problem.strerror}"
    return RsctlError(ExitCode.USAGE, error("file", message, None, "image.source"))
