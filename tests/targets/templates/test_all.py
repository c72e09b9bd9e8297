"""Every job that we give to users: valid, planned for every target, and run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rsctl.data import template_names

from ..conftest import Rsctl

OPTIONS: dict[str, tuple[str, ...]] = {
    "process": (),
    "compose": (),
    "vertex": (
        *("--set", "targets.vertex.project=my-project", "--set", "targets.vertex.region=us-east1"),
        *("--set", "image.repository=us-docker.pkg.dev/p/r/i", "--set", "outputs=gs://bucket/out"),
    ),
    "sagemaker": (
        *("--set", "targets.sagemaker.region=us-east-1", "--set", "outputs=s3://bucket/out"),
        *("--set", "targets.sagemaker.role=arn:aws:iam::123456789012:role/train"),
        *("--set", "image.repository=123456789012.dkr.ecr.us-east-1.amazonaws.com/i"),
    ),
}
"""What each target needs to know beyond the templates."""

SMALL: dict[str, tuple[str, ...]] = {
    "ddp": ("--set", "run.args.epochs=2"),
    "fsdp": ("--set", "run.args.steps=20", "--set", "run.args.checkpoint-every=10"),
    "parameter-server": ("--set", "run.args.epochs=2", "--set", "run.args.batch-size=500"),
    "single": ("--set", "run.args.epochs=2"),
}
"""As little of each template's training as shows all of it."""


def test_there_are_the_templates_that_init_names() -> None:
    assert template_names() == [
        "allreduce",
        "bench",
        "ddp",
        "fsdp",
        "nccl-tests",
        "parameter-server",
        "single",
        "webdataset",
    ]


@pytest.fixture
def forked(rsctl: Rsctl, torch_forks: dict[str, str]) -> None:
    """Its jobs do not spend their time on importing torch."""
    rsctl.env.update(torch_forks)


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("template", ["ddp", "fsdp", "parameter-server", "single"])
def test_a_template_is_valid_planned_and_runs(rsctl: Rsctl, template: str) -> None:
    assert rsctl("init", template, "mine").exit_code == 0
    assert rsctl.look("validate", "mine/job.yaml").stderr.count("error") == 0
    for target, options in OPTIONS.items():
        plan = json.loads(
            rsctl.look("plan", "mine/job.yaml", "-t", target, *options, "-o", "json").stdout
        )
        assert plan["target"] == target
        assert plan["world_size"] == 2
        assert [f for f in plan["findings"] if f["severity"] != "note"] == []
    done = rsctl("submit", "mine/job.yaml", "-o", "json", *SMALL[template])
    assert done.exit_code == 0, done.stderr
    assert done.result["metrics"]["loss"]["count"] > 1


@pytest.mark.usefixtures("forked")
def test_the_template_s_time_to_the_same_loss(rsctl: Rsctl) -> None:
    assert rsctl("init", "bench", "mine").exit_code == 0
    settings = ["matrix={'comm.local_steps': [1, 4]}", "workers.count=2", "reducers.count=0"]
    settings += ["run.args.width=32", "run.args.every=4", "run.args.target=2.2"]
    words = [word for setting in settings for word in ("--set", setting)]
    done = rsctl("bench", "run", "mine/convergence.yaml", "-o", "json", *words)
    assert done.exit_code == 0, done.stderr
    assert len(done.result["cells"]) == 2
    for cell in done.result["cells"]:
        assert cell["metrics"]["seconds_to_loss"]["values"][0] > 0
        assert cell["metrics"]["best_loss"]["values"][0] <= 2.2


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize(
    ("job", "settings", "cells"),
    [
        (
            "job",
            ["matrix.workers.count=[2]", "matrix.reducers.count=[1]"],
            [{"workers.count": 2, "reducers.count": 1}],
        ),
        (
            "buckets",
            ["matrix.comm.bucket_mb=[1]", "matrix.run.args.accumulate=[4]"],
            [{"comm.bucket_mb": 1, "run.args.accumulate": 4}],
        ),
        (
            "parallel",
            [],
            [
                {"run.args.parallel": "ddp"},
                {"run.args.parallel": "fsdp"},
                {"run.args.parallel": "dp", "workers.processes": 1, "run.args.batch-size": 64},
            ],
        ),
        (
            "data",
            ["run.args.samples=40", "run.args.shard-samples=10", "run.args.epochs=3"],
            [{"run.args.read": read} for read in ("files", "shards", "copied")],
        ),
    ],
)
def test_a_bench_of_the_template_runs(
    rsctl: Rsctl, job: str, settings: list[str], cells: list[dict[str, Any]]
) -> None:
    assert rsctl("init", "bench", "mine").exit_code == 0
    small = [] if job == "data" else ["run.args.width=64", "run.args.steps=8"]
    words = [word for setting in [*settings, *small] for word in ("--set", setting)]
    done = rsctl("bench", "run", f"mine/{job}.yaml", "-o", "json", *words)
    assert done.exit_code == 0, done.stderr
    assert [cell["values"] for cell in done.result["cells"]] == cells
    for cell in done.result["cells"]:
        assert cell["metrics"]["samples_per_second"]["values"][0] > 0
