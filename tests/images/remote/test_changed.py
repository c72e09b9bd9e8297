"""A file that changes between plan and build is not sent to a remote builder."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import gettempdir

import pytest

from rsctl.findings import ExitCode, RsctlError
from rsctl.images.recipe import make_recipe
from rsctl.images.remote.archive import pack_context
from tests.kit.builders.cloudbuild import CloudBuildEmulator
from tests.kit.builders.codebuild import CodeBuildEmulator

from ..conftest import ReadJob
from ..test_changed import assert_changed
from .conftest import Screen, cloud_build, code_build

IMAGE = "base: base:1\n  source: .\n  repository: 127.0.0.1:1/team/job"


def test_cloud_build_gets_nothing(
    google: CloudBuildEmulator, screen: Screen, job: ReadJob, tmp_path: Path
) -> None:
    recipe = make_recipe(job(IMAGE), "vertex")
    (tmp_path / "train.py").write_text("print(2)\n")
    with pytest.raises(RsctlError) as caught:
        cloud_build().build(recipe, screen)
    assert_changed(caught.value)
    assert (google.builds(), google.count("storage.upload")) == ([], 0)


def test_codebuild_gets_nothing(
    aws: CodeBuildEmulator, screen: Screen, job: ReadJob, tmp_path: Path
) -> None:
    recipe = make_recipe(job(IMAGE), "sagemaker")
    (tmp_path / "train.py").write_text("print(2)\n")
    with pytest.raises(RsctlError) as caught:
        code_build().build(recipe, screen)
    assert_changed(caught.value)
    assert (aws.builds(), aws.objects.names("staging")) == ([], [])


def test_a_disk_without_space_for_the_upload(
    job: ReadJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = make_recipe(job(IMAGE), "vertex")
    monkeypatch.setattr("tempfile.TemporaryFile", partial(open, "/dev/full", "r+b", 1 << 20))
    with pytest.raises(RsctlError) as caught, pack_context(recipe):
        pass
    [finding] = caught.value.findings
    assert caught.value.exit_code is ExitCode.ENVIRONMENT
    assert (finding.code, finding.remedy) == ("context", "free disk space there")
    assert finding.message.startswith(f"cannot pack the build's files in {gettempdir()}: ")
    assert finding.message.endswith("No space left on device")
