"""A package on its way to the staging bucket, once for the same files."""

from __future__ import annotations

import gzip
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rsctl.clients.endpoints import Endpoints
from rsctl.findings import Finding, RsctlError
from rsctl.images.events import BuildEvent
from rsctl.images.package import make_package
from rsctl.job.job import Job
from rsctl.runs.stream.formatting import format_bytes
from rsctl.targets.base import ImagePlan, Plan, Submission
from rsctl.targets.managed.emulator.faults import Fault
from rsctl.targets.managed.package_upload import upload_package
from rsctl.targets.managed.placeholders import make_submission
from rsctl.targets.planned_image import PlannedImage
from tests.kit.builders.cloudbuild import CloudBuildEmulator
from tests.kit.builders.codebuild import CodeBuildEmulator
from tests.kit.loopback import keep_google_auth_here
from tests.kit.packages import make_job

Content = Callable[[str], "bytes | None"]


class Cloud:
    """One of the two clouds: its target, its requests that upload, its bucket."""

    def __init__(self, target: str, emulator: Any, upload: str, storage: Any) -> None:
        self.target, self.emulator, self._upload, self._storage = target, emulator, upload, storage

    @property
    def uploads(self) -> int:
        return int(self.emulator.count(self._upload))

    @property
    def names(self) -> list[str]:
        return list(self._storage.names("staging"))

    def content(self, name: str) -> bytes:
        content = self._storage.content("staging", name)
        assert isinstance(content, bytes)
        return content


@pytest.fixture(params=["vertex", "sagemaker"])
def cloud(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """A cloud on loopback, and an environment that leads there."""
    for name in [n for n in os.environ if n.startswith(("AWS_", "GOOGLE_", "CLOUDSDK_"))]:
        monkeypatch.delenv(name)
    keep_google_auth_here(monkeypatch)
    emulator: Any = CloudBuildEmulator() if request.param == "vertex" else CodeBuildEmulator()
    with emulator:
        for name, value in emulator.environment().items():
            monkeypatch.setenv(name, value)
        if request.param == "vertex":
            yield Cloud("vertex", emulator, "storage.objects.insert", emulator.storage)
        else:
            yield Cloud("sagemaker", emulator, "s3.PutObject", emulator.objects)


def submission_of(job: Job, target: str) -> Submission:
    package = make_package(job)
    plan = Plan(
        run="job-aaaaaa",
        target=target,
        image=ImagePlan(tag="team/image:1", transport="none"),
        pools=[],
        world_size=1,
        env={},
        request={"body": {"command": package.command(f"/x/{package.folder}package.tar.gz")}},
    )
    return Submission(plan, job, package=package)


def provided(job: Job, cloud: Cloud) -> list[BuildEvent]:
    reported: list[BuildEvent] = []
    upload_package(submission_of(job, cloud.target), Endpoints.of_environment(), reported.append)
    return reported


def refusal(job: Job, cloud: Cloud, submission: Submission | None = None) -> Finding:
    submission = submission or submission_of(job, cloud.target)
    with pytest.raises(RsctlError) as caught:
        upload_package(submission, Endpoints.of_environment(), lambda event: None)
    return caught.value.findings[0]


def test_it_is_there_under_its_hash(tmp_path: Path, cloud: Cloud) -> None:
    job = make_job(tmp_path)
    digest = make_package(job).digest
    [reported] = provided(job, cloud)
    [name] = cloud.names
    assert name == f"a/b/packages/{digest}/package.tar.gz"
    content = cloud.content(name)
    assert hashlib.sha256(gzip.decompress(content)).hexdigest() == digest
    assert isinstance(reported, Finding)
    assert reported.message == f"image.source goes to bucket staging: {format_bytes(len(content))}"


def test_it_is_uploaded_once(tmp_path: Path, cloud: Cloud) -> None:
    job = make_job(tmp_path)
    provided(job, cloud)
    provided(job, cloud)
    assert cloud.uploads == 1
    (tmp_path / "src" / "train.py").write_text("print()")
    provided(job, cloud)
    assert (cloud.uploads, len(cloud.names)) == (2, 2)


def test_a_lost_upload_is_got_over(
    tmp_path: Path, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    route = {"vertex": "storage.upload", "sagemaker": "s3.PutObject"}[cloud.target]
    cloud.emulator.faults.add(Fault(route, cut="answer"))
    provided(make_job(tmp_path), cloud)
    assert len(cloud.names) == 1


def test_files_that_change_meanwhile_are_not_sent(tmp_path: Path, cloud: Cloud) -> None:
    job = make_job(tmp_path)
    submission = submission_of(job, cloud.target)
    (tmp_path / "src" / "train.py").write_text("print()")
    found = refusal(job, cloud, submission)
    assert (found.message, found.remedy, found.path) == (
        "files changed while the job was being submitted: train.py",
        "run the command again; list files that other programs write in .dockerignore",
        "image.source",
    )
    assert cloud.names == []


def test_a_bucket_that_is_not_there(tmp_path: Path, cloud: Cloud) -> None:
    scheme = {"vertex": "gs", "sagemaker": "s3"}[cloud.target]
    options = {"staging": f"{scheme}://nowhere/x"}
    found = refusal(make_job(tmp_path, targets={cloud.target: options}), cloud)
    assert (found.code, found.path) == ("bucket", f"targets.{cloud.target}.staging")
    assert found.remedy


def test_a_request_that_does_not_name_it_needs_none(tmp_path: Path, cloud: Cloud) -> None:
    """Such as one that an overlay has changed."""
    job = make_job(tmp_path)
    known = submission_of(job, cloud.target)
    plan = replace(known.plan, request={"body": {"command": ["own"]}})
    image = PlannedImage(plan.image)
    submission = make_submission(plan, job, image, known.package, [], [])
    upload_package(submission, Endpoints.of_environment(), lambda event: None)
    assert cloud.names == []
