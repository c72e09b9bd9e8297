"""Uploads a job's package to the staging bucket, once."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from rsctl.clients.endpoints import Endpoints
from rsctl.clients.staging import parse_staging
from rsctl.clients.storage import Upload
from rsctl.clients.storage.buckets import open_bucket
from rsctl.findings import ExitCode, RsctlError, error, note
from rsctl.images.events import Show
from rsctl.images.package import FILE, Package
from rsctl.target_info import target_info
from rsctl.targets.base import Submission


def upload_package(submission: Submission, endpoints: Endpoints, show: Show) -> None:
    """Upload the package that the request names to the staging bucket; most jobs have none.

    Raises RsctlError, for example if its files have changed since the plan.
    """
    package, target = submission.package, submission.plan.target
    if package is None:
        return
    options = target_info(target).options_of(submission.job)
    staging = parse_staging(options.staging or "")
    with _packed(package) as upload:
        show(note("package", f"{package.key} goes to bucket {staging.bucket}: {upload.size} bytes"))
        path = f"targets.{target}.staging"
        bucket = open_bucket(options.staging or "", endpoints, options.region, path)
        bucket.put(f"{staging.folder}{package.folder}{FILE}", upload)


@contextmanager
def _packed(package: Package) -> Iterator[Upload]:
    with tempfile.TemporaryFile() as out:
        try:
            package.write(out)
        except OSError as problem:
            message = f"cannot pack {package.key} in {tempfile.gettempdir()}: {problem}"
            remedy = "free disk space there, and do not change the files while they are copied"
            raise RsctlError(ExitCode.ENVIRONMENT, error("package", message, remedy)) from None
        yield Upload(out, out.tell(), package.digest, "application/gzip")
