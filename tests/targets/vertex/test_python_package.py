"""`run.package` on Vertex AI: what is uploaded and requested, what is refused, and a rehearsal."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from rsctl.targets.vertex.target import TARGET
from tests.kit.rendering import findings_of, merged, plan_of

from ..conftest import Rsctl, rehearsed
from .rendering import job_of, reported

SETUP = "from setuptools import find_packages, setup\n"
SETUP += "setup(name='trainer', version='0.1', packages=find_packages())\n"
TASK = "import os, sys\nprint('task', sys.argv[1:], 'of', os.environ.get('RANK'), __file__)\n"
IMAGE = "us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.1-9:latest"
JOB = job_of(
    {
        "run": {"command": None, "package": "pkg", "module": "trainer.task", "launcher": "none"},
        "image": {"uri": IMAGE},
        "targets": {"vertex": {"staging": "gs://bucket/staging"}},
    }
)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "pkg"
    (folder / "trainer").mkdir(parents=True)
    (folder / "setup.py").write_text(SETUP)
    (folder / "trainer" / "__init__.py").write_text("")
    (folder / "trainer" / "task.py").write_text(TASK)
    return folder


def spec_of(plan: dict[str, Any]) -> dict[str, Any]:
    body = plan["request"]["body"]
    found: dict[str, Any] = body["jobSpec"]["workerPoolSpecs"][0]["pythonPackageSpec"]
    return found


def test_a_folder_goes_to_staging_by_the_hash_of_its_files(tmp_path: Path, package: Path) -> None:
    first = spec_of(plan_of(tmp_path, JOB, TARGET))
    (uri,) = first["packageUris"]
    assert uri.startswith("gs://bucket/staging/packages/")
    assert uri.endswith("/package.tar.gz")
    assert first == {
        "executorImageUri": IMAGE, "packageUris": [uri], "pythonModule": "trainer.task"
    }  # fmt: skip
    assert spec_of(plan_of(tmp_path, JOB, TARGET)) == first
    (package / "trainer" / "task.py").write_text("print('changed')\n")
    assert spec_of(plan_of(tmp_path, JOB, TARGET))["packageUris"] != [uri]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"run": {"launcher": "torchrun"}},
            "error run.launcher: Vertex AI's container runs a package's module once on each node "
            "-> set run.launcher: none, and let the module start the other ranks of its node",
        ),
        (
            {"run": {"module": None, "script": "setup.py"}},
            "error run.script: Vertex AI runs a package's module, not a script -> use "
            "run.module, such as trainer.task for trainer/task.py",
        ),
        (
            {"run": {"package": "s3://bucket/a.tar.gz"}},
            "error run.package: target vertex cannot reach s3://bucket/a.tar.gz; it supports "
            "gs:// -> for this target: --set run.package=gs://BUCKET/PATH.tar.gz",
        ),
        (
            {"targets": {"vertex": {"staging": None}}},
            "error targets.vertex.staging: rsctl delivers run.package to the container through a "
            "bucket -> set targets.vertex.staging: gs://BUCKET/FOLDER",
        ),
        (
            {"comm": {"bucket_mb": 64}},
            "error comm: comm: needs rsctl-launch, which a package does not use -> remove it, or "
            "use image.source instead of run.package",
        ),
    ],
)
def test_what_vertex_ai_cannot_do_with_a_package(
    tmp_path: Path, package: Path, changes: dict[str, Any], expected: str
) -> None:
    found = findings_of(tmp_path, merged(JOB, changes), TARGET)
    assert [reported(f) for f in found if f.is_error] == [expected]


def test_a_version_that_comes_from_git_is_warned_of(tmp_path: Path, package: Path) -> None:
    (package / "setup.py").write_text(
        "setup(use_scm_version=True, setup_requires='setuptools_scm')"
    )
    (warned,) = [f for f in findings_of(tmp_path, JOB, TARGET) if f.code == "package"]
    assert reported(warned) == (
        "warning run.package: setup.py gets its version from git through setuptools_scm, and "
        "git's folder is not in the package -> write the version as a literal, or use a source "
        "distribution in a bucket"
    )


def test_a_rehearsal_installs_and_runs_it(rsctl: Rsctl, tmp_path: Path, package: Path) -> None:
    job = merged(JOB, {"run": {"args": {"epochs": 2}}})
    (tmp_path / "job.yaml").write_text(json.dumps(job))
    done = rsctl("submit", str(tmp_path / "job.yaml"), *rehearsed("vertex"), "-o", "json")
    assert done.exit_code == 0, done.stderr
    (line,) = [text for text in rsctl.log("@last").splitlines() if "of 0" in text]
    assert "task ['--epochs', '2'] of 0" in line
    assert line.endswith("/python-packages/trainer/task.py")
    (staged,) = (rsctl.home / "rehearsal").rglob("package.tar.gz")  # nodes remove their folders
    with tarfile.open(staged) as tar:
        assert sorted(tar.getnames()) == [
            "setup.py", "trainer", "trainer/__init__.py", "trainer/task.py"
        ]  # fmt: skip
