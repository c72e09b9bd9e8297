"""`run.package`: where it is delivered, what it lacks, and what is not in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rsctl.findings import error, warning
from rsctl.images.package import Package
from rsctl.images.python_package import (
    is_local,
    make_python_package,
    python_package_findings,
    python_package_notes,
    python_package_uri,
)
from rsctl.job.document import read


def job(folder: Path, package: str | None, target: str = "vertex", staging: str = "") -> Any:
    """A job of which the run is a package."""
    scheme = {"vertex": "gs", "sagemaker": "s3"}[target]
    text = f"name: j\ntarget: {target}\nrun: {{module: trainer.task"
    text += f", package: {package}}}\n" if package else "}\n"
    if staging:
        text += f"targets: {{{target}: {{staging: {scheme}://bucket{staging}}}}}\n"
    return read("job.yaml", (), text=text, folder=str(folder)).job


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    return tmp_path


def packed(made: Any) -> Package:
    found = make_python_package(made)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("package", "local"), [(None, False), ("pkg", True), ("gs://bucket/p.tar.gz", False)]
)
def test_only_a_folder_here_is_packed(folder: Path, package: str | None, local: bool) -> None:
    made = job(folder, package)
    assert (is_local(made), make_python_package(made) is not None) == (local, local)
    if not local:
        assert python_package_uri(made, "vertex", None) == (package or "")


@pytest.mark.parametrize(("staging", "place"), [("", ""), ("/a/b", "a/b/")])
def test_a_folder_is_delivered_through_the_staging_bucket(
    folder: Path, staging: str, place: str
) -> None:
    for target, scheme in (("vertex", "gs"), ("sagemaker", "s3")):
        made = job(folder, "pkg", target, staging or "/")
        package = packed(made)
        uri = python_package_uri(made, target, package)
        begin = f"{scheme}://bucket/{place}{package.folder}"
        assert uri.startswith(begin)
        assert uri.endswith(".tar.gz")


@pytest.mark.parametrize(
    ("package", "target", "staging", "finding"),
    [
        (None, "vertex", "", None),
        ("gs://bucket/p.tar.gz", "vertex", "", None),
        ("pkg", "vertex", "/x", None),
        (
            "s3://bucket/p.tar.gz",
            "vertex",
            "/x",
            error(
                "unsupported",
                "target vertex cannot reach s3://bucket/p.tar.gz; it supports gs://",
                "for this target: --set run.package=gs://BUCKET/PATH.tar.gz",
                "run.package",
            ),
        ),
        (
            "pkg",
            "sagemaker",
            "",
            error(
                "staging",
                "rsctl delivers run.package to the container through a bucket",
                "set targets.sagemaker.staging: s3://BUCKET/FOLDER",
                "targets.sagemaker.staging",
            ),
        ),
    ],
)
def test_what_a_target_needs_to_deliver_it(
    folder: Path, package: str | None, target: str, staging: str, finding: Any
) -> None:
    found = list(python_package_findings(job(folder, package, target, staging), target))
    assert found == ([] if finding is None else [finding])


@pytest.mark.parametrize(
    ("name", "text", "tool"),
    [
        ("pyproject.toml", "requires = ['setuptools-scm>=8']", "setuptools-scm"),
        ("setup.py", "setup(use_scm_version=True)  # setuptools_scm", "setuptools_scm"),
        ("setup.cfg", "[tool:pbr]\n", "pbr"),
        ("setup.py", "import versioneer", "versioneer"),
        ("other.py", "import versioneer", None),
        ("setup.py", "version='1'", None),
    ],
)
def test_a_version_that_comes_from_git_is_not_in_the_package(
    folder: Path, name: str, text: str, tool: str | None
) -> None:
    (folder / "pkg" / name).write_text(text)
    found = list(python_package_notes(packed(job(folder, "pkg"))))
    if tool is None:
        assert found == []
        return
    message = f"{name} gets its version from git through {tool}, and git's folder is not in "
    remedy = "write the version as a literal, or use a source distribution in a bucket"
    assert found == [warning("package", f"{message}the package", remedy, "run.package")]
    assert list(python_package_notes(None)) == []
