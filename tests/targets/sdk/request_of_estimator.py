"""Prints what SDK version 2 sends for job.yaml: in the SDK's own words, and by rsctl's estimator.

With names of job files as arguments, what it sends for each of these by rsctl's estimator. Run by
the Python of an environment that has the SDK, see `.ci/estimators`. Nothing is sent.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any
from unittest.mock import Mock

import boto3
from sagemaker.pytorch import PyTorch
from sagemaker.session import Session

from rsctl.targets.sagemaker.sdk import estimator

ROLE = "arn:aws:iam::123456789012:role/train"


def in_its_own_words() -> Any:
    return PyTorch(
        entry_point="train.py",
        source_dir="s3://code/sourcedir.tar.gz",
        role=ROLE,
        image_uri="763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.6.0-gpu-py312",
        instance_count=2,
        instance_type="ml.g5.12xlarge",
        hyperparameters={"epochs": 3, "name": "a b"},
        distribution={"torch_distributed": {"enabled": True}},
        environment={"NCCL_DEBUG": "INFO"},
        output_path="s3://bucket/out",
        max_run=3600,
        debugger_hook_config=False,
        disable_profiler=True,
        tags=[{"Key": "rsctl:run", "Value": "t-aaaaaa"}, {"Key": "rsctl:job", "Value": "t"}],
        sagemaker_session=Session(boto3.Session(region_name="us-east-1"), default_bucket="code"),
    )


def request_of(trained: Any) -> Any:
    client = Mock()
    trained.sagemaker_session.sagemaker_client = client
    trained.fit({"train": "s3://data/train/"}, wait=False, job_name="t-aaaaaa")
    return client.create_training_job.call_args.kwargs


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    for file in sys.argv[1:]:
        print(json.dumps(request_of(estimator(file, "t-aaaaaa"))))
    if not sys.argv[1:]:
        print(json.dumps(request_of(in_its_own_words())))
        print(json.dumps(request_of(estimator("job.yaml", "t-aaaaaa"))))
