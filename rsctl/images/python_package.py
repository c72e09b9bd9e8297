"""`run.package`: a Python package for a vendor's prebuilt container, in the staging bucket.

pip installs the folder itself, packed: it builds the same from a folder as from a source
distribution. So no code of the package runs on this machine, and the name in the bucket is the hash
of the folder's files only. The files lie at the archive's root, as SageMaker's contract requires.
Pure except for reading the files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rsctl.clients.staging import parse_staging
from rsctl.findings import Finding, error, warning
from rsctl.images.package import FILE, Package, package_notes, package_of
from rsctl.job.job import Job
from rsctl.target_info import target_info

PATH = "run.package"

_TIME = 1_580_601_600
"""2020-02-02, which build backends have for reproducible archives too; in a wheel, which is a ZIP
file, no file can be from before 1980."""

_VERSION_FROM_GIT = re.compile(r"setuptools[-_]scm|hatch-vcs|versioningit|dunamai|pbr\b|versioneer")


def is_local(job: Job) -> bool:
    """Whether a job has a package that must be packed and uploaded."""
    return job.run.package is not None and job.run.package.scheme == "file"


def make_python_package(job: Job) -> Package | None:
    """The package of a job that is a folder here. Raises RsctlError if a file cannot be read."""
    return package_of(job.run.package, key=PATH, time=_TIME) if is_local(job) else None


def python_package_uri(job: Job, target: str, package: Package | None) -> str:
    """Where the container gets the package of a job; empty for a job without one."""
    if package is None:
        return str(job.run.package or "")
    info = target_info(target)
    staging = parse_staging(info.options_of(job).staging or "")
    folder = f"{staging.folder}{package.folder}"
    return f"{info.staging_scheme}://{staging.bucket}/{folder}{FILE}"


def python_package_findings(job: Job, target: str) -> Iterator[Finding]:
    """The settings that a target needs to deliver a package to its containers; none for other
    jobs.
    """
    package, info = job.run.package, target_info(target)
    if package is None:
        return
    if package.scheme not in ("file", info.staging_scheme):
        message = f"target {target} cannot reach {package}; it supports {info.staging_scheme}://"
        remedy = f"for this target: --set {PATH}={info.staging_scheme}://BUCKET/PATH.tar.gz"
        yield error("unsupported", message, remedy, PATH)
    elif package.scheme == "file" and not info.options_of(job).staging:
        path = f"targets.{target}.staging"
        message = "rsctl delivers run.package to the container through a bucket"
        yield error("staging", message, f"set {path}: {info.staging_scheme}://BUCKET/FOLDER", path)


def python_package_notes(package: Package | None) -> Iterator[Finding]:
    """The files that a package does not include, and the consequences."""
    if package is None:
        return
    yield from package_notes(package)
    for entry in package.context.entries:
        if entry.name in ("pyproject.toml", "setup.py", "setup.cfg"):
            with entry.open() as file:
                found = _VERSION_FROM_GIT.search(file.read(1 << 20).decode(errors="replace"))
            if found:
                message = f"{entry.name} gets its version from git through {found[0]}, and git's "
                message += "folder is not in the package"
                remedy = "write the version as a literal, or use a source distribution in a bucket"
                yield warning("package", message, remedy, PATH)
                return
