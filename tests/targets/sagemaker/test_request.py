"""Target sagemaker: whole plans."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from rsctl.job.document import read
from rsctl.plan import make_plan
from rsctl.targets.sagemaker.target import TARGET
from tests.kit.rendering import RUN, merged

from .case_parts import reducers
from .rendering import REGISTRY, ROLE, URI, job_of, render, sagemaker

OWN_TAGS = [{"Key": "rsctl:run", "Value": RUN}, {"Key": "rsctl:job", "Value": "job"}]
ENV = {
    "RSCTL_RUN": RUN,
    "RSCTL_TARGET": "sagemaker",
    "RSCTL_OUTPUT_DIR": "/opt/ml/output/data",
    "RSCTL_CHECKPOINT_DIR": "/opt/ml/output/data/checkpoints",
}
OWN_REDUCERS = {"RSCTL_REDUCER_KIND": "rsctl", "RSCTL_TOKEN": None}


def launch(ranks: int) -> list[str]:
    words = ["--launcher", "torchrun", "--processes", str(ranks), "--", "python", "train.py"]
    return words


def body(**fields: Any) -> dict[str, Any]:
    """A body with what all of these have."""
    common = {
        "TrainingJobName": RUN,
        "RoleArn": ROLE,
        "AlgorithmSpecification": {
            "TrainingImage": URI,
            "TrainingInputMode": "FastFile",
            "ContainerEntrypoint": ["rsctl-launch"],
        },
        "Environment": ENV,
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/runs"},
        "StoppingCondition": {"MaxRuntimeInSeconds": 7200},
        "Tags": OWN_TAGS,
    }
    whole: dict[str, Any] = merged(common, fields)
    return whole


def finding(severity: str, code: str, message: str, remedy: str | None, path: str) -> tuple:
    return severity, code, message, remedy, path


def reported(plan: dict[str, Any]) -> list[tuple]:
    """A plan's findings without their places in the file."""
    return [
        finding(f["severity"], f["code"], f["message"], f["remedy"], f["path"])
        for f in plan["findings"]
    ]


def test_four_nodes_with_gpus(tmp_path: Path) -> None:
    changes = {
        "workers": {"count": 4, "accelerator": "a100-40gb:8"},
        "inputs": {"train": "s3://bucket/mnli/"},
        "metrics": {"loss": {"regex": "loss=([0-9.]+)"}},
        "limits": {"timeout": "2h", "queue": "1h"},
    }
    plan = render(tmp_path, changes)
    env = {**ENV, "RSCTL_INPUT_TRAIN": "/opt/ml/input/data/train"}
    source = {
        "S3DataType": "S3Prefix",
        "S3Uri": "s3://bucket/mnli/",
        "S3DataDistributionType": "FullyReplicated",
    }
    pool = {
        "role": "worker",
        "count": 4,
        "machine": "ml.p4d.24xlarge",
        "accelerator": "a100-40gb:8",
        "gbps": 400.0,
    }
    chosen = "ml.p4d.24xlarge, the smallest with a100-40gb:8"
    assert reported(plan) == [finding("note", "machine", chosen, None, "workers.machine")]
    del plan["findings"]
    cost = plan.pop("cost")
    assert (cost["per_hour"], cost["seconds"]) == (pytest.approx(101.005, abs=0.01), 7200)
    assert plan == {
        "run": RUN,
        "target": "sagemaker",
        "image": {"tag": URI, "transport": "none"},
        "pools": [pool],
        "world_size": 32,
        "env": env,
        "inputs": [
            {
                "name": "train",
                "mode": "mount",
                "location": "s3://bucket/mnli/",
                "path": "/opt/ml/input/data/train",
                "by": "SageMaker's input mode FastFile",
            }
        ],
        "request": {
            "operation": "CreateTrainingJob",
            "region": "us-east-1",
            "body": body(
                AlgorithmSpecification={
                    "ContainerArguments": launch(8),
                    "MetricDefinitions": [{"Name": "loss", "Regex": "loss=([0-9.]+)"}],
                },
                Environment=env,
                InputDataConfig=[{"ChannelName": "train", "DataSource": {"S3DataSource": source}}],
                ResourceConfig={"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 4},
                StoppingCondition={"MaxRuntimeInSeconds": 7200, "MaxPendingTimeInSeconds": 3600},
            ),
        },
    }


def test_other_machines_where_there_is_no_capacity(tmp_path: Path) -> None:
    changes = {
        "workers": {"count": 2, "accelerator": "a100-40gb:8"},
        "limits": {"timeout": "2h", "restarts": 3},
        "checkpoints": "s3://bucket/ckpt",
        **sagemaker(
            instance_preferences=["ml.p4de.24xlarge", "ml.p5.48xlarge"],
            checkpoint_path="/workspace/ckpt",
            profiler="500ms",
        ),
    }
    plan = render(tmp_path, changes)
    assert plan["request"]["body"] == body(
        AlgorithmSpecification={"ContainerArguments": launch(8)},
        Environment={**ENV, "RSCTL_CHECKPOINT_DIR": "/workspace/ckpt"},
        CheckpointConfig={"S3Uri": "s3://bucket/ckpt", "LocalPath": "/workspace/ckpt"},
        ProfilerConfig={
            "DisableProfiler": False,
            "S3OutputPath": "s3://bucket/runs",
            "ProfilingIntervalInMilliseconds": 500,
        },
        ResourceConfig={
            "InstancePreferences": [
                {"InstanceType": "ml.p4d.24xlarge"},
                {"InstanceType": "ml.p4de.24xlarge"},
                {"InstanceType": "ml.p5.48xlarge"},
            ],
            "InstanceCount": 2,
        },
        RetryStrategy={"MaximumRetryAttempts": 3},
    )
    assert [(pool["machine"], pool["count"]) for pool in plan["pools"]] == [
        ("ml.p4d.24xlarge, ml.p4de.24xlarge, ml.p5.48xlarge", 2)
    ]
    assert plan["world_size"] == 16


def test_a_preferred_machine_without_disks_gets_a_volume(tmp_path: Path) -> None:
    changes = {
        "workers": {"count": 1, "accelerator": "a10g:4"},
        **sagemaker(instance_preferences=["ml.p3.8xlarge"]),
    }
    assert render(tmp_path, changes)["request"]["body"]["ResourceConfig"] == {
        "InstancePreferences": [
            {"InstanceType": "ml.g5.12xlarge"},
            {"InstanceType": "ml.p3.8xlarge"},
        ],
        "InstanceCount": 1,
        "VolumeSizeInGB": 30,
    }


@pytest.mark.parametrize(
    ("profiler", "config"),
    [
        (None, None),
        (False, {"DisableProfiler": True}),
        (True, {"DisableProfiler": False, "S3OutputPath": "s3://bucket/runs"}),
    ],
)
def test_the_profiler_is_off_or_on(
    tmp_path: Path, profiler: bool | None, config: dict[str, Any] | None
) -> None:
    rendered = render(tmp_path, sagemaker(profiler=profiler))["request"]["body"]
    assert rendered.get("ProfilerConfig") == config


def test_workers_and_reducers(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    changes = {
        "image": {
            "uri": None,
            "base": "pytorch/pytorch:2.8.0",
            "repository": {"sagemaker": f"{REGISTRY}/job"},
        },
        "run": {"env": {"TOKEN": "${TOKEN}"}},
        "workers": {"count": 4, "accelerator": "a10g:4"},
        "reducers": {"count": "auto"},
        "inputs": {"train": "s3://bucket/mnli/"},
        "limits": {"timeout": "2h"},
    }
    plan = render(tmp_path, changes)
    tag = plan["image"]["tag"]
    env = {
        **ENV,
        "TOKEN": None,
        "RSCTL_INPUT_TRAIN": "/opt/ml/input/data/train",
        "RSCTL_ON_REDUCER_LOSS": "fail",
        **OWN_REDUCERS,
    }
    source = {
        "S3DataType": "S3Prefix",
        "S3Uri": "s3://bucket/mnli/",
        "S3DataDistributionType": "FullyReplicated",
        "InstanceGroupNames": ["workers"],
    }
    groups = [
        {"InstanceGroupName": "workers", "InstanceType": "ml.g5.12xlarge", "InstanceCount": 4},
        {"InstanceGroupName": "reducers", "InstanceType": "ml.c5n.9xlarge", "InstanceCount": 4},
    ]
    expected = body(
        AlgorithmSpecification={"TrainingImage": tag, "ContainerArguments": launch(4)},
        InputDataConfig=[{"ChannelName": "train", "DataSource": {"S3DataSource": source}}],
        ResourceConfig={"InstanceGroups": groups, "VolumeSizeInGB": 30},
    )
    assert tag.startswith(f"{REGISTRY}/job:")
    assert plan["image"] == {"tag": tag, "transport": "rsctl"}
    assert plan["world_size"] == 16
    assert plan["env"] == env
    assert plan["request"]["body"] == {**expected, "Environment": env}
    assert plan["pools"] == [
        {
            "role": "worker",
            "count": 4,
            "machine": "ml.g5.12xlarge",
            "accelerator": "a10g:4",
            "gbps": 40.0,
        },
        {
            "role": "reducer",
            "count": 4,
            "machine": "ml.c5n.9xlarge",
            "accelerator": None,
            "gbps": 50.0,
        },
    ]
    sizing = "4 reducers on ml.c5n.9xlarge: 4 workers x 40 Gbit/s / 50 Gbit/s"
    assert finding("note", "reducers", sizing, None, "reducers.count") in reported(plan)


def test_spot_with_checkpoints(tmp_path: Path) -> None:
    changes = {
        "workers": {"count": 2, "accelerator": "l4"},
        "checkpoints": "s3://bucket/ckpt",
        "limits": {"timeout": "2h", "queue": "30m", "spot": True},
    }
    plan = render(tmp_path, changes)
    assert plan["request"]["body"] == body(
        AlgorithmSpecification={"ContainerArguments": launch(1)},
        Environment={**ENV, "RSCTL_CHECKPOINT_DIR": "/opt/ml/checkpoints"},
        CheckpointConfig={"S3Uri": "s3://bucket/ckpt"},
        ResourceConfig={"InstanceType": "ml.g6.xlarge", "InstanceCount": 2},
        StoppingCondition={"MaxRuntimeInSeconds": 7200, "MaxWaitTimeInSeconds": 9000},
        EnableManagedSpotTraining=True,
    )
    assert {(each["severity"], each["path"]) for each in plan["findings"]} == {
        ("note", "workers.machine"),
        ("note", "limits.queue"),
    }


def test_machines_that_are_kept_warm(tmp_path: Path) -> None:
    changes = {"limits": {"timeout": "2h"}, **sagemaker(keep_alive="1h30m")}
    plan = render(tmp_path, {**changes, "workers": {"machine": "ml.c5.2xlarge", "disk": "50GB"}})
    assert plan["request"]["body"] == body(
        AlgorithmSpecification={"ContainerArguments": launch(1)},
        ResourceConfig={
            "InstanceType": "ml.c5.2xlarge",
            "InstanceCount": 1,
            "VolumeSizeInGB": 50,
            "KeepAlivePeriodInSeconds": 5400,
        },
    )
    assert reported(plan) == [
        finding(
            "note",
            "quota",
            "SageMaker keeps the machines, and bills them, for up to 1h30m after the job, until "
            "another job uses them, only within a quota, which is 0 by default; neither the cost "
            "of the plan nor limits.cost includes that",
            "ask in Service Quotas for TYPE for training warm pool usage; to release the machines "
            "earlier, `aws sagemaker update-training-job --training-job-name RUN "
            "--resource-config KeepAlivePeriodInSeconds=0`",
            "targets.sagemaker.keep_alive",
        )
    ]


def test_without_reducers_the_image_has_what_the_machines_bring(tmp_path: Path) -> None:
    """`auto` is settled before the image is: it is no image for reducers that are not there."""
    changes = {
        "image": {"uri": None, "base": "pytorch/pytorch:2.8.0", "repository": f"{REGISTRY}/job"},
        "workers": {"count": 4, "accelerator": "h100:8"},
        "reducers": {"count": "auto"},
    }
    plan = render(tmp_path, changes)
    assert plan["image"]["transport"] == "efa"
    assert [pool["role"] for pool in plan["pools"]] == ["worker"]
    assert set(ENV) == set(plan["env"])


def test_a_patch_as_a_list(tmp_path: Path) -> None:
    entry = {"op": "add", "path": "/Tags/0", "value": {"Key": "a", "Value": "b"}}
    plan = render(tmp_path, sagemaker(overlay=[entry]))
    assert plan["request"]["body"]["Tags"] == [{"Key": "a", "Value": "b"}, *OWN_TAGS]


def test_a_secret_of_a_patch_is_not_among_the_variables(tmp_path: Path) -> None:
    """It is part of the request, and `validate` warns about it."""
    plan = render(tmp_path, sagemaker(overlay={"Environment": {"PASSWORD": "s1", "A": "b"}}))
    assert (plan["env"]["PASSWORD"], plan["env"]["A"]) == (None, "b")
    assert plan["request"]["body"]["Environment"]["PASSWORD"] == "s1"


def test_the_image_is_built_as_the_plan_says(tmp_path: Path) -> None:
    """The job that is submitted has the same number of reducers as the plan, not `auto`."""
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job_of(reducers())))
    document = read(str(tmp_path / "job.yaml"), (), {})
    assert make_plan(document, TARGET, RUN).job.reducers.count == 4


def test_without_credentials_nothing_is_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job_of({})))
    submission = make_plan(read(str(tmp_path / "job.yaml"), (), {}), TARGET, RUN)
    (missing,) = TARGET.preflight(submission)
    assert (missing.severity, missing.code) == ("error", "credentials-missing")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "key")
    assert TARGET.preflight(submission) == []


def test_a_plan_imports_no_library_of_aws(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job_of(reducers())))
    script = (
        "import sys; from rsctl.cli.app import run\n"
        "run(['plan', 'job.yaml', '-t', 'sagemaker', '-o', 'json'])\n"
        "print([m for m in sys.modules if m in ('boto3', 'botocore')], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stderr.splitlines()[-1] == "[]"
    assert '"CreateTrainingJob"' in done.stdout
