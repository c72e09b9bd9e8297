"""Target sagemaker: rules of limits, and of what runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from .case_parts import workers
from .rendering import reported, sagemaker

LIMITS = {
    "a long job": (
        {"limits": {"timeout": "29d"}},
        [
            "error limits.timeout: SageMaker's StoppingCondition.MaxRuntimeInSeconds: a job can "
            "run for at most 28 days, not for 2505600 seconds -> at most 28d"
        ],
    ),
    "a short wait": (
        {**workers(1, "t4"), "limits": {"queue": "5m"}},
        [
            "error limits.queue: SageMaker's StoppingCondition.MaxPendingTimeInSeconds: it is "
            "300, but SageMaker requires at least 1800 -> from 30m to 28d"
        ],
    ),
    "a wait for CPUs": (
        {"limits": {"queue": "1h"}},
        [
            "error limits.queue: SageMaker limits the wait only for machines with accelerators "
            "and for spot machines -> remove limits.queue"
        ],
    ),
    "retries": (
        {"limits": {"retries": 31}},
        [
            "warning limits.retries: SageMaker restarts a job only after an internal error of "
            "the service, never after a failure of the program -> let the pipeline submit the "
            "job again, with checkpoints",
            "error limits.retries: SageMaker's RetryStrategy.MaximumRetryAttempts: it is 31, but "
            "SageMaker allows at most 30 -> from 0 to 30",
        ],
    ),
    "restarts": (
        {"limits": {"restarts": 31}},
        [
            "warning limits.restarts: SageMaker restarts a job only after an internal error of "
            "the service, never after a failure of the program -> let the pipeline submit the "
            "job again, with checkpoints",
            "error limits.restarts: SageMaker's RetryStrategy.MaximumRetryAttempts: it is 31, "
            "but SageMaker allows at most 30 -> from 0 to 30",
        ],
    ),
    "a checkpoint path without checkpoints": (
        sagemaker(checkpoint_path="/ckpt"),
        [
            "error targets.sagemaker.checkpoint_path: it is the folder that is saved to "
            "checkpoints, and checkpoints is not set -> set checkpoints: s3://BUCKET/FOLDER"
        ],
    ),
    "a profiler that looks when AWS's does not": (
        sagemaker(profiler="300ms"),
        [
            "error targets.sagemaker.profiler: SageMaker's profiler does not support the "
            "interval 300ms -> use one of 100ms, 200ms, 500ms, 1s, 5s, 1m"
        ],
    ),
    "spot without checkpoints": (
        {"limits": {"spot": True, "queue": "1h"}},
        [
            "warning limits.spot: without checkpoints, an interrupted spot job starts from the "
            "beginning -> set checkpoints: s3://BUCKET/FOLDER"
        ],
    ),
    "spot kept warm": (
        {
            **sagemaker(keep_alive="1h"),
            "limits": {"spot": True},
            "checkpoints": "s3://bucket/c",
        },
        [
            "error targets.sagemaker.keep_alive: SageMaker's "
            "ResourceConfig.KeepAlivePeriodInSeconds: SageMaker does not keep spot machines warm "
            "-> remove it, or set limits.spot: false"
        ],
    ),
    "kept warm for long": (
        sagemaker(keep_alive="7h"),
        [
            "error targets.sagemaker.keep_alive: SageMaker's "
            "ResourceConfig.KeepAlivePeriodInSeconds: it is 25200, but SageMaker allows at most "
            "21600 -> at most 6h"
        ],
    ),
}

RUN_CASES = {
    "a shell on a node that is kept": (
        {"limits": {"keep": "1h"}},
        [
            "warning limits.keep: SageMaker opens a shell on a kept node only if the job allows it "
            "from its start -> set targets.sagemaker.remote_debug: true"
        ],
    ),
    "a shell that the job allows": (
        {"limits": {"keep": "1h"}, **sagemaker(remote_debug=True)},
        [],
    ),
    "a long variable": (
        {"run": {"env": {"A": "x" * 513}}},
        [
            "error run.env.A: SageMaker's Environment.A: it has 513 characters, but SageMaker "
            "allows at most 512 -> remove or shorten some; put long values in a file of the image"
        ],
    ),
    "many variables": (
        {"run": {"env": {f"A{n}": "x" for n in range(97)}}},
        [
            "error run.env: SageMaker's Environment: it has 101 entries, but SageMaker allows at "
            "most 100 -> remove or shorten some; put long values in a file of the image"
        ],
    ),
    "a secret": (
        {"run": {"env": {"TOKEN": "${TOKEN}"}}},
        [
            "warning run.env.TOKEN: anyone with permission to describe the job can read TOKEN -> "
            "keep it in AWS Secrets Manager, and let the script read it with the job's role"
        ],
    ),
    "a long argument of a foreign image": (
        {"run": {"launcher": "none", "args": ["x" * 257]}},
        [
            "error run.args: SageMaker's AlgorithmSpecification.ContainerArguments[0]: it has "
            "257 characters, but SageMaker allows at most 256 -> move long text to a file in the "
            "image, or use launcher once"
        ],
    ),
    "a hyperparameter of rsctl's own": (
        sagemaker(hyperparameters={"rsctl_arguments_0": "[]"}),
        [
            "error targets.sagemaker.hyperparameters.rsctl_arguments_0: names that start with "
            "rsctl_arguments_ are reserved for rsctl -> use another name"
        ],
    ),
    "far too long arguments": (
        {"run": {"args": ["x" * 26_000]}},
        [
            "error run.args: SageMaker's HyperParameters: it has 102 entries, but SageMaker allows "
            "at most 100 -> move long text to a file: arguments of 25 kB fit"
        ],
    ),
    "far too long arguments and a hyperparameter": (
        {"run": {"args": ["x" * 26_000]}, **sagemaker(hyperparameters={"a": "b"})},
        [
            "error targets.sagemaker.hyperparameters: SageMaker's HyperParameters: it has 103 "
            "entries, but SageMaker allows at most 100 -> shorten them, and run.args, which may "
            "use some of the same space"
        ],
    ),
}

ALL = {**LIMITS, **RUN_CASES}


@pytest.mark.parametrize("title", ALL)
def test_what_is_wrong_and_what_to_do(title: str, tmp_path: Path) -> None:
    changes, expected = ALL[title]
    assert sorted(reported(tmp_path, changes)) == sorted(expected)
