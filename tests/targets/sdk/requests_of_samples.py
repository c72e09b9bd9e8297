"""Writes into a file, as JSON, what SDK version 2 sends for each sample. Nothing is sent.

`python -m tests.targets.sdk.requests_of_samples tests/targets/sdk/sample_requests.json` makes the
record, by the Python of an environment that has the SDK, see `.ci/estimators`.
"""

from __future__ import annotations

import importlib
import json
import logging
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import boto3
from sagemaker.debugger import TensorBoardOutputConfig
from sagemaker.inputs import FileSystemInput, TrainingInput
from sagemaker.instance_group import InstanceGroup
from sagemaker.session import Session

from tests.targets.sdk.samples import CODE, ROLE, SAMPLES, Sample


def estimator_of(sample: Sample, session: Session) -> Any:
    module, _, name = sample.estimator.rpartition(".")
    arguments = dict(sample.arguments)
    if board := arguments.pop("tensorboard_output_config", None):
        arguments["tensorboard_output_config"] = TensorBoardOutputConfig(s3_output_path=board)
    if groups := arguments.pop("instance_groups", None):
        arguments["instance_groups"] = [InstanceGroup(*group) for group in groups]
    if name != "Estimator":
        arguments["source_dir"] = CODE
    return getattr(importlib.import_module(module), name)(
        role=ROLE,
        output_path="s3://bucket/out",
        disable_profiler=True,
        debugger_hook_config=False,
        tags=[{"Key": "rsctl:run", "Value": "t-aaaaaa"}, {"Key": "rsctl:job", "Value": "t"}],
        sagemaker_session=session,
        **arguments,
    )


def input_of(given: Any) -> Any:
    if isinstance(given, str):
        return given
    return FileSystemInput(**given) if "file_system_id" in given else TrainingInput(**given)


def request_of(sample: Sample) -> Any:
    session = Session(boto3.Session(region_name="us-east-1"), default_bucket="code")
    session.sagemaker_client = client = Mock()
    inputs = {name: input_of(given) for name, given in (sample.inputs or {}).items()}
    made = estimator_of(sample, session)
    made.fit(inputs or None, wait=False, job_name="t-aaaaaa")
    return client.create_training_job.call_args.kwargs


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    lines = [f"{json.dumps(each.title)}: {json.dumps(request_of(each))}" for each in SAMPLES]
    Path(sys.argv[1]).write_text("{" + ",\n".join(lines) + "}\n")
