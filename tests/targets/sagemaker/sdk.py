"""What sagemaker-core sends: `TrainingJob.create`, with a client that only notes its call.

The SDK is 300 MB, so what it sends for the table of jobs is recorded in sdk_bodies.json, a job a
line. `python -m tests.targets.sagemaker.sdk` records it anew, in an environment that `.ci/sdks`
makes; the tests compare the record with what one prints.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.kit.rendering import RUN, merged

from .rendering import ROLE, URI

COMMON = {
    "training_job_name": RUN,
    "role_arn": ROLE,
    "algorithm_specification": {
        "training_image": URI,
        "training_input_mode": "FastFile",
        "container_entrypoint": ["rsctl-launch"],
        "container_arguments": [
            *("--launcher", "torchrun", "--processes", "1", "--", "python", "train.py")
        ],
    },
    "output_data_config": {"s3_output_path": "s3://bucket/runs"},
    "resource_config": {
        "instance_type": "ml.m5.xlarge",
        "instance_count": 1,
        "volume_size_in_gb": 30,
    },
    "stopping_condition": {"max_runtime_in_seconds": 86_400},
    "environment": {
        "RSCTL_RUN": RUN,
        "RSCTL_TARGET": "sagemaker",
        "RSCTL_OUTPUT_DIR": "/opt/ml/output/data",
        "RSCTL_CHECKPOINT_DIR": "/opt/ml/output/data/checkpoints",
    },
}
OWN_TAGS = [{"key": "rsctl:run", "value": RUN}, {"key": "rsctl:job", "value": "job"}]


class Sent(Exception):
    """The call, instead of an answer."""


class _Client:
    def create_training_job(self, **body: Any) -> None:
        raise Sent(body)


def sdk_body(words: dict[str, Any]) -> dict[str, Any]:
    """The body that sagemaker-core makes of a job in its own words."""
    import boto3
    from sagemaker.core.resources import TrainingJob

    class Session(boto3.Session):
        def client(self, *_: Any, **__: Any) -> Any:
            return _Client()

    arguments = merged(COMMON, {**words, "tags": [*words.get("tags", []), *OWN_TAGS]})
    if "resource_config" in words:  # another machine is not one more setting of the common one
        arguments["resource_config"] = words["resource_config"]
    try:
        TrainingJob.create(**arguments, session=Session(region_name="us-east-1"))
    except Sent as sent:
        body: dict[str, Any] = sent.args[0]
        return body
    raise AssertionError("the SDK sent nothing")


RECORD = Path(__file__).with_name("sdk_bodies.json")


def as_text(bodies: dict[str, dict[str, Any]]) -> str:
    """The text of the record."""
    lines = [f"{json.dumps(title)}: {json.dumps(body)}" for title, body in bodies.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def sdk_bodies() -> dict[str, dict[str, Any]]:
    """What the installed SDK sends for each job of the table that has no reducers."""
    from .cases import CASES

    return {case.title: sdk_body(case.sdk) for case in CASES if case.sdk is not None}


if __name__ == "__main__":
    text = as_text(sdk_bodies())
    if sys.argv[1:] == ["--print"]:
        sys.stdout.write(text)
    else:
        RECORD.write_text(text)
