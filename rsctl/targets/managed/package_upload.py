"""Uploads a job's package to the staging bucket, once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from rsctl.atomic_file import temporary_file
from rsctl.clients.endpoints import Endpoints
from rsctl.clients.staging import parse_staging
from rsctl.clients.storage import Upload
from rsctl.clients.storage.buckets import open_bucket
from rsctl.findings import note
from rsctl.images.events import Show
from rsctl.images.package import FILE, Package
from rsctl.runs.stream.formatting import format_bytes
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
        show(
            note(
                "package",
                f"{package.key} goes to bucket {staging.bucket}: {format_bytes(upload.size)}",
            )
        )
        path = f"targets.{target}.staging"
        bucket = open_bucket(options.staging or "", endpoints, options.region, path)
        bucket.put(f"{staging.folder}{package.folder}{FILE}", upload)


@contextmanager
def _packed(package: Package) -> Iterator[Upload]:
    remedy = "free disk space there, and do not change the files while they are copied"
    with temporary_file(package.write, "package", f"pack {package.key} in", remedy) as out:
        yield Upload(out, out.seek(0, os.SEEK_END), package.digest, "application/gzip")
