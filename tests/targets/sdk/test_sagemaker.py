"""ModelTrainer, unmodified, trains our jobs in the emulated SageMaker."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from rsctl.findings import RsctlError
from rsctl.targets.managed.emulator.nodes import ANY_IMAGE, Program
from rsctl.targets.managed.emulator.nodes.runners import make_runner
from rsctl.targets.sagemaker.emulator import Behaviour, SageMakerEmulator
from rsctl.targets.sagemaker.sdk import code
from tests.kit.preloaded import Preloaded
from tests.targets.conftest import SOON

from .conftest import SAGEMAKER, PlanOf

SDK_PYTHON = os.environ.get("SDK_PYTHON", "")
OPTED_OUT = """
SchemaVersion: "1.0"
SageMaker: {PythonSDK: {Modules: {TelemetryOptOut: true}}}
"""
JOB = f"""
name: t
run: {{command: [bash, -c, 'echo "$RSCTL_REPLICA of $RSCTL_RUN"'], launcher: once}}
reducers: {{count: 1}}
{SAGEMAKER}
"""
Train = Callable[..., dict[str, Any]]
needs_sdk = pytest.mark.skipif(
    not SDK_PYTHON and os.environ.get("CI") != "true", reason="SDK_PYTHON: see .ci/sdks"
)


@pytest.fixture
def emulator(tmp_path: Path) -> Iterator[SageMakerEmulator]:
    runner = make_runner("process", {ANY_IMAGE: Program(tmp_path)})
    behaviour = Behaviour(pace=0.01, **SOON["sagemaker"])
    with SageMakerEmulator(tmp_path / "cloud", runner, behaviour=behaviour) as emulator:
        yield emulator
    runner.close()


def environment(folder: Path) -> dict[str, str]:
    """Of an SDK whose files are in a folder, and which reports to nobody."""
    (folder / "config.yaml").write_text(OPTED_OUT)
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        "HOME": str(folder),
        "SAGEMAKER_USER_CONFIG_OVERRIDE": str(folder / "config.yaml"),
    }


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Preloaded]:
    """Runs programs without the time that importing the SDK takes."""
    folder = tmp_path_factory.mktemp("sdk")
    with Preloaded(
        SDK_PYTHON, folder, "sagemaker.train.model_trainer", environ=environment(folder)
    ) as started:
        yield started


@pytest.fixture
def train(emulator: SageMakerEmulator, sdk: Preloaded, tmp_path: Path) -> Train:
    """The job that the SDK has trained, as SageMaker describes it."""

    def train(way: str, text: str = JOB) -> dict[str, Any]:
        (tmp_path / "job.yaml").write_text(text)
        environ = environment(tmp_path) | emulator.environment()
        sdk.run("tests.targets.sdk.train_with_sdk", way, environ=environ, folder=tmp_path)
        return described(emulator)

    return train


def described(emulator: SageMakerEmulator) -> dict[str, Any]:
    """The only job that there is."""
    access = emulator.environment()
    client = boto3.Session(
        access["AWS_ACCESS_KEY_ID"], access["AWS_SECRET_ACCESS_KEY"], region_name="us-east-1"
    ).client("sagemaker", endpoint_url=emulator.url)
    (job,) = client.list_training_jobs()["TrainingJobSummaries"]
    found: dict[str, Any] = client.describe_training_job(TrainingJobName=job["TrainingJobName"])
    return found


@needs_sdk
@pytest.mark.parametrize("way", ["object", "code"])
def test_a_job_with_a_reducer_group_trains(train: Train, way: str) -> None:
    job = train(way)
    assert job["TrainingJobStatus"] == "Completed"
    assert "ContainerArguments" not in job["AlgorithmSpecification"]
    groups = job["ResourceConfig"]["InstanceGroups"]
    assert [(g["InstanceGroupName"], g["InstanceCount"]) for g in groups] == [
        ("workers", 2),
        ("reducers", 1),
    ]


OF_AWS = """
name: t
run: {script: train.py, args: {name: a b}}
image:
  uri: 763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.6.0-cpu-py312
  source: source
workers: {count: 2, machine: ml.m5.xlarge}
outputs: s3://bucket/out
targets:
  sagemaker:
    region: us-east-1
    role: "arn:aws:iam::123456789012:role/train"
    staging: s3://staging/sdk
"""


@needs_sdk
def test_source_in_an_image_of_aws_is_started_by_the_sdk(train: Train, tmp_path: Path) -> None:
    """It is not run here: the SDK's programs are for containers with /opt/ml."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "train.py").write_text("print('hello')")
    job = train("start", OF_AWS)
    assert job["AlgorithmSpecification"]["ContainerEntrypoint"] == ["/bin/bash"]
    channels = sorted(channel["ChannelName"] for channel in job["InputDataConfig"])
    assert channels == ["code", "sm_drivers"]
    (script,) = (tmp_path / "cloud").rglob("sm_train.sh")
    assert "--nproc_per_node=1 train.py --name 'a b'\n" in script.read_text()
    assert (tmp_path / "cloud" / "s3" / "staging" / "sdk").is_dir()


PACKAGED = """
name: t
run: {package: s3://code/sourcedir.tar.gz, script: train.py, args: {name: a-b}, launcher: none}
image: {uri: 763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.6.0-cpu-py312}
workers: {count: 2, machine: ml.m5.xlarge}
outputs: s3://bucket/out
targets: {sagemaker: {region: us-east-1, role: "arn:aws:iam::123456789012:role/train"}}
"""


@needs_sdk
def test_a_package_in_a_bucket_is_the_plans_request(
    train: Train, tmp_path: Path, plan_of: PlanOf
) -> None:
    """And it runs: the script ends with an error unless it is called as it should be."""
    bucket = tmp_path / "cloud" / "s3" / "code"
    bucket.mkdir(parents=True)
    (tmp_path / "train.py").write_text("import sys\nassert sys.argv[1:] == ['--name', 'a-b']\n")
    with tarfile.open(bucket / "sourcedir.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "train.py", "train.py")
    job = train("object", PACKAGED)
    assert job["TrainingJobStatus"] == "Completed"
    body = plan_of("sagemaker", PACKAGED.removeprefix("\nname: t\n")).plan.request["body"]
    name = {"sagemaker_job_name": '"t-aaaaaa"'}
    assert {**job["HyperParameters"], **name} == body["HyperParameters"]
    algorithm = {**body["AlgorithmSpecification"], "EnableSageMakerMetricsTimeSeries": False}
    assert job["AlgorithmSpecification"] == algorithm  # with the service's own default
    assert job["ResourceConfig"] == body["ResourceConfig"]
    assert job.get("InputDataConfig", []) == []


@pytest.mark.parametrize(
    ("launcher", "options", "expected"),
    [
        ("mpi", "", "run.launcher: mpi"),
        (
            "none",
            ", hyperparameters: {sagemaker_parameter_server_enabled: 'true'}",
            "HyperParameters.sagemaker_parameter_server_enabled, which the image's toolkit reads",
        ),
    ],
)
def test_what_only_the_images_toolkit_starts_is_refused(
    plan_of: PlanOf, tmp_path: Path, launcher: str, options: str, expected: str
) -> None:
    """The SDK's own programs would start the script alone on each node."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("")
    job = f"""
run: {{package: {tmp_path}/code, script: train.py, launcher: {launcher}}}
image: {{uri: "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.6.0-gpu-py312"}}
workers: {{count: 2, machine: ml.g5.12xlarge, accelerator: "a10g:4"}}
outputs: s3://bucket/out
targets:
  sagemaker: {{region: us-east-1, role: "arn:aws:iam::123456789012:role/train",
    staging: s3://bucket/staging{options}}}
"""
    with pytest.raises(RsctlError) as raised:
        code(plan_of("sagemaker", job))
    assert raised.value.findings[0].message == f"ModelTrainer cannot express {expected}"
