"""Brings a job's package to the staging bucket, once."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from rsctl.clients.archive import Archive
from rsctl.clients.staging import StagingFolder, parse_staging
from rsctl.findings import ExitCode, RsctlError, error, note
from rsctl.image.events import Show
from rsctl.image.package import FILE, Package
from rsctl.spec.job import Job


def upload_package(package: Package, job: Job, target: str, show: Show) -> None:
    """Have a package in the staging bucket of the target.

    Raises RsctlError, also if its files are not those of the plan any more.
    """
    staging = parse_staging(getattr(job.targets, target).staging or "")
    with _packed(package) as archive:
        show(note("package", f"image.source goes to bucket {staging.bucket}: {archive.size} bytes"))
        put = {"vertex": _put_to_google, "sagemaker": _put_to_aws}[target]
        put(job, staging, f"{staging.folder}{package.folder}{FILE}", archive)


@contextmanager
def _packed(package: Package) -> Iterator[Archive]:
    with tempfile.TemporaryFile() as out:
        try:
            written = package.write(out)
        except OSError as problem:
            message = f"cannot pack image.source in {tempfile.gettempdir()}: {problem}"
            remedy = "free space there, and do not change the files while they are copied"
            raise RsctlError(ExitCode.ENVIRONMENT, error("package", message, remedy)) from None
        if written != package.digest:
            message = "files were changed while the job was submitted"
            finding = error("package", message, "submit it again", "image.source")
            raise RsctlError(ExitCode.ENVIRONMENT, finding)
        yield Archive(out, out.tell(), package.digest, "application/gzip")


def _put_to_google(job: Job, staging: StagingFolder, name: str, archive: Archive) -> None:
    from rsctl.clients.google import Google
    from rsctl.clients.pace import Pace
    from rsctl.clients.storage import Storage

    pace = Pace.of_environment()
    Storage(Google(pace), staging.bucket, pace).put(name, archive)


def _put_to_aws(job: Job, staging: StagingFolder, name: str, archive: Archive) -> None:
    from rsctl.clients.s3 import Bucket

    Bucket(staging.bucket, job.targets.sagemaker.region).put(name, archive)
