"""Checks of `run.package` of a spec that do not depend on the target."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress

from rsctl.findings import Finding, error
from rsctl.job.job import Job
from rsctl.job.yaml_tree import quoted

PATH = "run.package"
PROJECT_FILES = ("pyproject.toml", "setup.py")
"""The files that make a folder installable with pip."""

_ENDING = ".tar.gz"
_RUN_BY_PYTHON = (".py", ".pyc")


def check_package(job: Job, is_broken: Callable[[str], bool]) -> Iterator[Finding]:
    """Findings on `run.package`; nothing for jobs without one."""
    if job.run.package is None:
        return
    yield from _check_what_runs(job)
    if not is_broken(PATH):
        yield from _check_location(job, job.run.package, job.run.package.scheme)
    if not job.image.uri:
        message = "a package needs a vendor's prebuilt container, and image.uri is not set"
        remedy = "set image.uri, or build an image with image.source instead of run.package"
        yield error("package", message, remedy, "image.uri")
    elif job.image.source:
        message = "the container gets only run.package, so image.source has no effect"
        yield error("package", message, "remove one of the two", "image.source")


def _check_what_runs(job: Job) -> Iterator[Finding]:
    run = job.run
    if run.command is not None:
        message = "a package is started by a module or a script, not by a command"
        yield error("package", message, "use run.module, or remove run.package", "run.command")
    if run.launcher == "once":
        message = f"launcher {run.launcher} needs rsctl, which is not in the container of a package"
        remedy = "set run.launcher: none; the container then starts the package once on each node"
        yield error("package", message, remedy, "run.launcher")


def _check_location(job: Job, package: str, scheme: str) -> Iterator[Finding]:
    if scheme != "file":
        if not package.endswith(_ENDING) or package.endswith(f"/{_ENDING}"):
            message = f"{quoted(package)} is not a source distribution"
            yield error("package", message, f"use a file that ends with {_ENDING}", PATH)
        return
    if not os.path.isdir(package):
        remedy = f"use a folder, or a {_ENDING} in a bucket: gs://BUCKET/PATH{_ENDING}"
        yield error("file", f"folder {package!r} does not exist", remedy, PATH)
        return
    if job.run.script and not os.path.isfile(os.path.join(package, job.run.script)):
        message = f"script {str(job.run.script)!r} does not exist in {package!r}"
        yield error("file", message, "correct run.script or run.package", "run.script")
    if job.run.module and not any(map(os.path.isfile, _project_files(package))):
        message = (
            f"{package!r} is not a Python package: it has neither {' nor '.join(PROJECT_FILES)}"
        )
        remedy = (
            "use a folder that has one of them, or write a setup.py there: from setuptools "
            'import find_packages, setup; setup(name="trainer", version="0.1", '
            "packages=find_packages())"
        )
        yield error("package", message, remedy, PATH)
    elif job.run.module:
        yield from _check_module(job.run.module, package)


def _check_module(module: str, package: str) -> Iterator[Finding]:
    """`python -m` runs a file of that name, or `__main__.py` of a package of that name.

    Only the package's build knows the locations of modules in the folder: at the top, below src/ or
    another folder that is not a package itself, or in any folder that it maps them from.
    """
    modules = sorted(set(_modules(package)))
    if module in modules or _maps_folders(package):
        return
    from rsctl.job.suggestions import close_match  # only after a mistake

    name = module.rpartition(".")[2]
    close = [each for each in modules if each.rpartition(".")[2] == name][-2:]
    close = close or [each for each in (close_match(module, modules),) if each]
    message = f"module {module} does not exist in {package!r}"
    remedy = f"did you mean {' or '.join(close)}?" if close else "use one of its modules"
    yield error("package", message, remedy, "run.module")


def _modules(package: str) -> Iterator[str]:
    """The modules that a folder can run: `src/trainer/task.py` is src.trainer.task and
    trainer.task.
    """
    for folder, folders, files in os.walk(package):
        folders[:] = [each for each in folders if each.isidentifier()]
        inside = os.path.relpath(folder, package).split(os.sep)
        parents = [] if inside == ["."] else inside
        for file in files:
            name, ending = os.path.splitext(file)
            if ending in _RUN_BY_PYTHON and name != "__init__":
                names = [*parents, *([] if name == "__main__" else [name])]
                yield from _importable(package, names)


def _importable(package: str, names: list[str]) -> Iterator[str]:
    """A module's names, by the folders that may be on the path; such folders are not packages."""
    for start in range(len(names)):
        if start and os.path.isfile(os.path.join(package, *names[:start], "__init__.py")):
            return
        yield ".".join(names[start:])


def _maps_folders(package: str) -> bool:
    """Whether its build may take modules from folders of other names."""
    for path in (*_project_files(package), os.path.join(package, "setup.cfg")):
        with suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
            if "package_dir" in text or "package-dir" in text:
                return True
    return False


def _project_files(package: str) -> list[str]:
    return [os.path.join(package, name) for name in PROJECT_FILES]
