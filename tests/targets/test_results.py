"""Where the results of a run are, on every target, from the stored plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rsctl.targets import get
from rsctl.targets.local.compose import ComposeTarget
from rsctl.targets.local.process import ProcessTarget

from .local.planning import JOB, Render, a_host
from .local.planning import document as document
from .local.planning import plan as plan
from .sagemaker import rendering as sagemaker
from .vertex import rendering as vertex

LOCAL = {"process": ProcessTarget(a_host()), "compose": ComposeTarget(a_host())}


@pytest.mark.parametrize("target", LOCAL.values(), ids=LOCAL)
def test_folders_of_this_machine(target: Any, plan: Render, tmp_path: Path) -> None:
    text = JOB.replace("}\nrun", ", base: python:3.11}\nrun")
    own = "/home/runs/job-1"
    assert target.results(plan(text, target)) == {
        "outputs": f"{own}/outputs",
        "checkpoints": f"{own}/checkpoints",
    }


@pytest.mark.parametrize("target", LOCAL.values(), ids=LOCAL)
def test_folders_of_choice(target: Any, plan: Render, tmp_path: Path) -> None:
    text = JOB.replace("}\nrun", ", base: python:3.11}\nrun")
    text += "outputs: ./a$b\ncheckpoints: /ckpt\n"
    assert target.results(plan(text, target)) == {
        "outputs": f"{tmp_path}/a$b",
        "checkpoints": "/ckpt",
    }


SAGEMAKER: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "outputs": (  # as the SDK's ModelTrainer.output_path and TrainingStep name them
        {},
        {
            "outputs": "s3://bucket/runs/job-7f3k2a/output/output.tar.gz",
            "model": "s3://bucket/runs/job-7f3k2a/output/model.tar.gz",
        },
    ),
    "not packed": (
        sagemaker.sagemaker(output_compression="NONE"),
        {
            "outputs": "s3://bucket/runs/job-7f3k2a/output/data/",
            "model": "s3://bucket/runs/job-7f3k2a/output/model/",
        },
    ),
    "staging": (
        {"outputs": None, **sagemaker.sagemaker(staging="s3://bucket/staging/")},
        {
            "outputs": "s3://bucket/staging/job-7f3k2a/outputs/job-7f3k2a/output/output.tar.gz",
            "model": "s3://bucket/staging/job-7f3k2a/outputs/job-7f3k2a/output/model.tar.gz",
        },
    ),
    "all, and changed by the patch": (
        {
            "checkpoints": "s3://bucket/ckpt",
            **sagemaker.sagemaker(
                tensorboard="s3://bucket/board",
                overlay={"OutputDataConfig": {"S3OutputPath": "s3://other/"}},
            ),
        },
        {
            "outputs": "s3://other/job-7f3k2a/output/output.tar.gz",
            "model": "s3://other/job-7f3k2a/output/model.tar.gz",
            "checkpoints": "s3://bucket/ckpt",
            "tensorboard": "s3://bucket/board/job-7f3k2a/tensorboard-output",
        },
    ),
}


@pytest.mark.parametrize("title", SAGEMAKER)
def test_places_in_s3(title: str, tmp_path: Path) -> None:
    changes, expected = SAGEMAKER[title]
    assert get("sagemaker").results(sagemaker.render(tmp_path, changes)) == expected


VERTEX: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "outputs": (
        {},
        {
            "outputs": "gs://bucket/runs",
            "model": "gs://bucket/runs/model",
            "checkpoints": "gs://bucket/runs/checkpoints",
        },
    ),
    "staging, checkpoints elsewhere": (
        {
            "outputs": None,
            "checkpoints": "gs://bucket/ckpt",
            **vertex.vertex(staging="gs://bucket/staging"),
        },
        {
            "outputs": "gs://bucket/staging/job-7f3k2a/outputs",
            "model": "gs://bucket/staging/job-7f3k2a/outputs/model",
            "checkpoints": "gs://bucket/ckpt",
        },
    ),
    "the platform's own folders elsewhere, by a patch": (
        vertex.vertex(
            overlay={"jobSpec": {"baseOutputDirectory": {"outputUriPrefix": "gs://b/o/"}}}
        ),
        {
            "outputs": "gs://bucket/runs",
            "model": "gs://b/o/model",
            "checkpoints": "gs://bucket/runs/checkpoints",
        },
    ),
}


@pytest.mark.parametrize("title", VERTEX)
def test_places_in_cloud_storage(title: str, tmp_path: Path) -> None:
    changes, expected = VERTEX[title]
    assert get("vertex").results(vertex.render(tmp_path, changes)) == expected


def test_pages_about_a_job_on_vertex() -> None:
    board = "projects/1234/locations/europe-west4/tensorboards/77"
    plan = {"request": {"body": {"jobSpec": {"tensorboard": board}}}}
    assert get("vertex").pages("vertex://my-project/us-central1/99", plan) == {
        "console": "https://console.cloud.google.com/agent-platform/locations/us-central1/training"
        "/99?project=my-project",
        "logs": "https://console.cloud.google.com/logs/query;query=resource.type%3D%22ml_job%22"
        "%0Aresource.labels.job_id%3D%2299%22?project=my-project",
        "tensorboard": "https://europe-west4.tensorboard.googleusercontent.com/experiment/"
        "projects+1234+locations+europe-west4+tensorboards+77+experiments+99",
    }
    assert get("vertex").pages("vertex://job-aaaaaa", plan) == {}


def test_pages_about_a_job_on_sagemaker() -> None:
    assert get("sagemaker").pages("sagemaker://eu-west-1/my-job", {}) == {
        "console": "https://eu-west-1.console.aws.amazon.com/sagemaker/home?region=eu-west-1"
        "#/jobs/my-job",
        "logs": "https://eu-west-1.console.aws.amazon.com/cloudwatch/home?region=eu-west-1"
        "#logsV2:log-groups/log-group/$252Faws$252Fsagemaker$252FTrainingJobs"
        "$3FlogStreamNameFilter$3Dmy-job$252F",
    }
    assert get("sagemaker").pages("sagemaker://cn-north-1/my-job", {}) == {}
