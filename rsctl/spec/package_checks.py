"""Checks of `run.package` of a spec that do not depend on the target."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from rsctl.findings import Finding, error
from rsctl.spec.job import Job
from rsctl.spec.yaml_tree import quoted

PATH = "run.package"
PROJECT_FILES = ("pyproject.toml", "setup.py")
"""What makes a folder one that pip installs."""

_ENDING = ".tar.gz"


def check_package(job: Job, is_broken: Callable[[str], bool]) -> Iterator[Finding]:
    """Findings on `run.package`; nothing for jobs without one."""
    if job.run.package is None:
        return
    yield from _check_what_runs(job)
    if not is_broken(PATH):
        yield from _check_location(job, job.run.package, job.run.package.scheme)
    if not job.image.uri:
        message = "a package is for a vendor's prebuilt container, and image.uri names none"
        remedy = "set image.uri, or build an image with image.source in place of run.package"
        yield error("package", message, remedy, "image.uri")
    elif job.image.source:
        message = "the container gets run.package, and nothing brings image.source there"
        yield error("package", message, "remove one of the two", "image.source")


def _check_what_runs(job: Job) -> Iterator[Finding]:
    run = job.run
    if run.command is not None:
        message = "a package is run by its module or a script, and not by a command"
        yield error("package", message, "use run.module, or remove run.package", "run.command")
    if run.launcher in ("once", "mpi"):
        message = f"launcher {run.launcher} is rsctl's, which is not in the container of a package"
        remedy = "set run.launcher: none, by which the container starts it once on each node"
        yield error("package", message, remedy, "run.launcher")


def _check_location(job: Job, package: str, scheme: str) -> Iterator[Finding]:
    if scheme != "file":
        if not package.endswith(_ENDING) or package.endswith(f"/{_ENDING}"):
            message = f"{quoted(package)} is no source distribution"
            yield error("package", message, f"name a file that ends with {_ENDING}", PATH)
        return
    if not os.path.isdir(package):
        remedy = f"name a folder, or a {_ENDING} in a bucket: gs://BUCKET/PATH{_ENDING}"
        yield error("file", f"no folder {package!r}", remedy, PATH)
        return
    if job.run.script and not os.path.isfile(os.path.join(package, job.run.script)):
        message = f"no script {str(job.run.script)!r} in {package!r}"
        yield error("file", message, "correct run.script or run.package", "run.script")
    if job.run.module and not any(map(os.path.isfile, _project_files(package))):
        message = f"neither {' nor '.join(PROJECT_FILES)} is in {package!r}, so it is no package"
        remedy = (
            "name the folder that has one of them, or write a setup.py there: "
            "from setuptools import find_packages, setup; "
            'setup(name="trainer", version="0.1", packages=find_packages())'
        )
        yield error("package", message, remedy, PATH)


def _project_files(package: str) -> list[str]:
    return [os.path.join(package, name) for name in PROJECT_FILES]
