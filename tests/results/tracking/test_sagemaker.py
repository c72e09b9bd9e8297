"""An experiment of SageMaker: a field of the job's own request."""

from __future__ import annotations

from pathlib import Path

import boto3
import pytest

from rsctl.targets import get
from rsctl.targets.sagemaker.emulator import SageMakerEmulator
from tests.kit.nodes import MemoryNodes, MemoryRunner
from tests.kit.rendering import RUN, findings_of
from tests.targets.sagemaker.rendering import job_of, render, reported, sagemaker

TRACKED = {"tracking": [{"sagemaker": "bert"}]}
CONFIG = {"ExperimentName": "bert", "TrialComponentDisplayName": RUN}


def test_the_request_has_the_experiment_and_nothing_else_changes(tmp_path: Path) -> None:
    plain = render(tmp_path, {})
    body = {**plain["request"]["body"], "ExperimentConfig": CONFIG}
    assert render(tmp_path, TRACKED) == {**plain, "request": {**plain["request"], "body": body}}


def test_the_emulator_takes_it_and_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = render(tmp_path, TRACKED)["request"]["body"]
    with SageMakerEmulator(tmp_path / "cloud", MemoryRunner("docker", MemoryNodes)) as cloud:
        for name, value in cloud.environment().items():
            monkeypatch.setenv(name, value)
        client = boto3.Session().client("sagemaker", region_name="us-east-1")
        client.create_training_job(**body)
        shown = client.describe_training_job(TrainingJobName=RUN)
        assert shown["ExperimentConfig"] == CONFIG
        client.stop_training_job(TrainingJobName=RUN)


def test_what_contradicts_it_is_refused(tmp_path: Path) -> None:
    both = {**TRACKED, **sagemaker(experiment={"experiment": "other"})}
    assert reported(tmp_path, both, "error") == [
        "error tracking[0].sagemaker: targets.sagemaker.experiment already sets the job's "
        "experiment -> keep one of the two"
    ]
    two = {"tracking": [{"sagemaker": "a"}, {"sagemaker": "b"}]}
    assert reported(tmp_path, two, "error") == [
        "error tracking[1].sagemaker: a job can belong to only one experiment of SageMaker -> "
        "remove the others"
    ]


def test_other_targets_refuse_it(tmp_path: Path) -> None:
    job = {**job_of(TRACKED), "outputs": "./out", "image": {}}
    (found,) = [f for f in findings_of(tmp_path, job, get("process")) if f.is_error]
    assert (found.path, found.message, found.remedy) == (
        "tracking[0].sagemaker",
        "target process: only SageMaker jobs can belong to its experiments",
        "remove it, or submit with --target sagemaker",
    )
