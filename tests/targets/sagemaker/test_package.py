"""Target sagemaker: local source for an image that is used without changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rsctl.images.package import LOADER, make_package
from rsctl.job.document import read
from tests.kit.rendering import merged

from .case_parts import FSX, VPC
from .rendering import render, reported, sagemaker

STAGED = {"image": {"source": "src"}, **sagemaker(staging="s3://bucket/staging/")}
REDUCED = {"workers": {"count": 2}, "reducers": {"count": 1}}


@pytest.fixture(autouse=True)
def _source(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("print()\n")


def body(folder: Path, changes: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = render(folder, merged(STAGED, changes))["request"]["body"]
    return found


def digest(folder: Path) -> str:
    return make_package(read(str(folder / "job.yaml")).require_job()).digest


def channel(folder: Path, **source: Any) -> dict[str, Any]:
    from_s3 = {
        "S3DataType": "S3Prefix",
        "S3Uri": f"s3://bucket/staging/packages/{digest(folder)}/",
        "S3DataDistributionType": "FullyReplicated",
        **source,
    }
    return {
        "ChannelName": "rsctl",
        "DataSource": {"S3DataSource": from_s3},
        "InputMode": "File",
    }


def test_the_container_begins_with_the_package(tmp_path: Path) -> None:
    made = body(tmp_path, {"run": {"launcher": "once"}})
    algorithm = made["AlgorithmSpecification"]
    assert algorithm["ContainerEntrypoint"] == [
        "python3",
        "-I",
        "-c",
        LOADER,
        "/opt/ml/input/data/rsctl/package.tar.gz",
        digest(tmp_path),
    ]
    assert algorithm["ContainerArguments"] == ["--launcher", "once", "--", "python", "train.py"]
    assert made["InputDataConfig"] == [channel(tmp_path)]
    assert not [name for name in made["Environment"] if name.startswith("RSCTL_INPUT")]


def test_reducers_get_it_too_and_data_only_the_workers(tmp_path: Path) -> None:
    data, package = body(tmp_path, {**REDUCED, "inputs": {"train": "s3://bucket/set/"}})[
        "InputDataConfig"
    ]
    assert data["DataSource"]["S3DataSource"]["InstanceGroupNames"] == ["workers"]
    assert package == channel(tmp_path, InstanceGroupNames=["workers", "reducers"])


def test_beside_a_file_system_no_channel_names_a_group(tmp_path: Path) -> None:
    options = sagemaker(file_systems={"data": FSX}, **VPC)
    _, package = body(tmp_path, merged(REDUCED, options))["InputDataConfig"]
    assert package == channel(tmp_path)


def test_long_arguments_travel_as_ever(tmp_path: Path) -> None:
    made = body(tmp_path, {"run": {"args": ["x" * 300]}})
    algorithm = made["AlgorithmSpecification"]
    assert algorithm["ContainerEntrypoint"][:4] == ["python3", "-I", "-c", LOADER]
    assert algorithm["ContainerArguments"] == ["--arguments-from", "hyperparameters"]


def test_it_needs_a_bucket(tmp_path: Path) -> None:
    assert reported(tmp_path, {"image": {"source": "src"}}) == [
        "error targets.sagemaker.staging: rsctl delivers image.source through a bucket if the "
        "image is used without changes -> set targets.sagemaker.staging: s3://BUCKET/FOLDER"
    ]


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        ("inputs", {"inputs": {"rsctl": "s3://bucket/set/"}}),
        (
            "targets.sagemaker.file_systems",
            sagemaker(file_systems={"rsctl": FSX}, **VPC),
        ),
    ],
)
def test_the_name_of_its_channel_is_taken(
    tmp_path: Path, key: str, changes: dict[str, Any]
) -> None:
    assert reported(tmp_path, merged(STAGED, changes)) == [
        f"error {key}.rsctl: the channel rsctl delivers image.source -> use another name"
    ]
    assert reported(tmp_path, changes) == []


def test_a_place_that_is_too_long_is_the_buckets(tmp_path: Path) -> None:
    options = sagemaker(staging=f"s3://bucket/{'x' * 1000}")
    [found] = reported(tmp_path, merged(STAGED, options))
    assert found.startswith("error targets.sagemaker.staging: SageMaker's InputDataConfig[0]")


def test_requirements_that_no_step_installs(tmp_path: Path) -> None:
    """Estimators install them, so that their users expect it."""
    (tmp_path / "src" / "requirements.txt").write_text("# none yet\n\n")
    assert reported(tmp_path, STAGED) == []
    (tmp_path / "src" / "requirements.txt").write_text("datasets==3.0.0\n")
    path = tmp_path / "src" / "requirements.txt"
    warned = (
        "warning image.source: requirements.txt in image.source is not installed, because the "
        "image is used without changes -> use image.base instead of image.uri, with "
        f"image.python: {path}, or install the packages in the image"
    )
    assert reported(tmp_path, STAGED) == [warned]
    script = merged(STAGED, {"run": {"script": "train.py", "command": None}})
    instead = "; SageMaker's own images install it with run.package in place of image.source"
    assert reported(tmp_path, script) == [warned + instead]
