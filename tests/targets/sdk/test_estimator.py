"""`run.package` on SageMaker is the request of an estimator, of SDK version 2."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rsctl.findings import RsctlError
from rsctl.targets.sagemaker.sdk import code, estimator
from rsctl.targets.sagemaker.sdk.estimator_arguments import estimator_arguments
from tests.kit.preloaded import Preloaded
from tests.kit.rendering import merged

from .conftest import PlanOf
from .test_samples import RECORD

SDK2_PYTHON = os.environ.get("SDK2_PYTHON", "")
JOB = """
run:
  package: s3://code/sourcedir.tar.gz
  script: train.py
  args: {epochs: 3, name: a b}
  env: {NCCL_DEBUG: INFO}
image: {uri: "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.6.0-gpu-py312"}
workers: {count: 2, machine: ml.g5.12xlarge, accelerator: "a10g:4", disk: 30GB}
inputs: {train: s3://data/train/}
outputs: s3://bucket/out
limits: {timeout: 1h}
targets:
  sagemaker:
    region: us-east-1
    role: "arn:aws:iam::123456789012:role/train"
    input_mode: File
    profiler: false
"""
PLAN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/p"
LAMBDA = "arn:aws:lambda:us-east-1:123456789012:function:login"
needs_sdk = pytest.mark.skipif(
    not SDK2_PYTHON and os.environ.get("CI") != "true", reason="SDK2_PYTHON: see .ci/estimators"
)


def options(**changes: Any) -> dict[str, Any]:
    return {"targets": {"sagemaker": changes}}


def launched(launcher: str, **hyperparameters: str) -> dict[str, Any]:
    return {"run": {"launcher": launcher}, **options(hyperparameters=hyperparameters)}


def overlay(**fields: Any) -> dict[str, Any]:
    return {"targets": {"sagemaker": {"profiler": None, "overlay": fields}}}


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Preloaded]:
    """Runs programs without the seconds that importing the SDK takes."""
    folder = tmp_path_factory.mktemp("sdk")
    modules = ("sagemaker.pytorch", "sagemaker.session")
    with Preloaded(SDK2_PYTHON, folder, *modules, environ=environ(folder)) as started:
        yield started


def environ(home: Path) -> dict[str, str]:
    """The variables of a user of the SDK."""
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "HOME": str(home)}
    return {**os.environ, **keys}


def requests(sdk: Preloaded, folder: Path, *files: str) -> list[Any]:
    """What the SDK sends, see request_of_estimator.py."""
    module = "tests.targets.sdk.request_of_estimator"
    printed = sdk.run(module, *files, environ=environ(folder), folder=folder)
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


RULE = {"RuleConfigurationName": "LossNotDecreasing", "RuleEvaluatorImage": "r.example/rules:1"}
BASIC = {"DisableProfiler": False, "S3OutputPath": "s3://bucket/out"}
FRAMEWORK = {"DataloaderProfilingConfig": '{"StartStep": 7, "NumSteps": 1}'}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "parameter server": (
        launched("none", sagemaker_parameter_server_enabled="true"),
        {"HyperParameters": {"sagemaker_parameter_server_enabled": "true"}},
    ),
    "options of MPI": (
        launched("mpi", sagemaker_mpi_custom_mpi_options='"-verbose -x A=1"'),
        {
            "HyperParameters": {
                "sagemaker_mpi_enabled": "true",
                "sagemaker_mpi_num_of_processes_per_host": "4",
                "sagemaker_mpi_custom_mpi_options": '"-verbose -x A=1"',
            }
        },
    ),
    "training compiler": (
        launched(
            "none",
            sagemaker_pytorch_xla_multi_worker_enabled="true",
            sagemaker_training_compiler_enabled="true",
            sagemaker_training_compiler_debug_mode="false",
        ),
        {"HyperParameters": {"sagemaker_pytorch_xla_multi_worker_enabled": "true"}},
    ),
    "pytorchddp": (
        launched(
            "none",
            sagemaker_pytorch_ddp_enabled="true",
            sagemaker_instance_type='"ml.g5.12xlarge"',
        ),
        {"HyperParameters": {"sagemaker_pytorch_ddp_enabled": "true"}},
    ),
    "a level of the log": (
        launched("torchrun", sagemaker_container_log_level="10"),
        {"HyperParameters": {"sagemaker_container_log_level": "10"}},
    ),
    "profiler": (
        options(profiler="1s"),
        {"ProfilerConfig": {**BASIC, "ProfilingIntervalInMilliseconds": 1000}},
    ),
    "Debugger": (
        overlay(
            DebugHookConfig={
                "S3OutputPath": "s3://bucket/hook",
                "CollectionConfigurations": [
                    {"CollectionName": "losses", "CollectionParameters": {"save_interval": "50"}}
                ],
            },
            DebugRuleConfigurations=[{**RULE, "RuleParameters": {"num_steps": "10"}}],
            ProfilerRuleConfigurations=[{**RULE, "RuleParameters": {"rule_to_invoke": "All"}}],
            ProfilerConfig={**BASIC, "ProfilingParameters": FRAMEWORK},
        ),
        {"ProfilerConfig": {**BASIC, "ProfilingParameters": FRAMEWORK}},
    ),
    "output compression": (
        options(output_compression="NONE"),
        {"OutputDataConfig": {"CompressionType": "NONE"}},
    ),
    "TensorBoard": (
        options(tensorboard="s3://bucket/tb"),
        {"TensorBoardOutputConfig": {"S3OutputPath": "s3://bucket/tb"}},
    ),
    "small ones": (
        options(
            remote_debug=True,
            infra_check=True,
            session_tags=True,
            training_plan=PLAN,
            registry_access="Vpc",
            registry_credentials=LAMBDA,
            subnets=["subnet-1"],
            security_groups=["sg-1"],
            experiment={"experiment": "e"},
        ),
        {
            "RemoteDebugConfig": {"EnableRemoteDebug": True},
            "InfraCheckConfig": {"EnableInfraCheck": True},
            "SessionChainingConfig": {"EnableSessionTagChaining": True},
            "ResourceConfig": {"TrainingPlanArn": PLAN},
            "ExperimentConfig": {"ExperimentName": "e"},
        },
    ),
    "instance groups": (
        {
            "run": {"launcher": "mpi"},
            "roles": {"data": {"count": 1, "machine": "ml.m5.xlarge", "ends": "by-itself"}},
        },
        {"HyperParameters": {"sagemaker_distribution_instance_groups": '["workers"]'}},
    ),
}


def case_body(plan_of: PlanOf, name: str) -> tuple[str, dict[str, Any]]:
    """A case's job file and the request of its plan, which has what the case says."""
    changes, expected = CASES[name]
    text = yaml.safe_dump(merged(yaml.safe_load(JOB), changes))
    body = plan_of("sagemaker", text).plan.request["body"]
    for field, values in expected.items():
        assert body[field] == {**body[field], **values}
    return text, body


@needs_sdk
def test_the_request_is_that_of_an_estimator(
    plan_of: PlanOf, sdk: Preloaded, tmp_path: Path
) -> None:
    body: dict[str, Any] = dict(plan_of("sagemaker", JOB).plan.request["body"])
    (tmp_path / "job.yaml").write_text("name: t\n" + JOB)
    by_the_sdk, by_rsctl = requests(sdk, tmp_path)
    assert by_the_sdk == body
    assert by_rsctl == body


@needs_sdk
def test_an_estimator_says_all_that_the_job_says(
    plan_of: PlanOf, sdk: Preloaded, tmp_path: Path
) -> None:
    bodies = {}
    for number, name in enumerate(CASES):
        text, bodies[name] = case_body(plan_of, name)
        (tmp_path / f"{number}.yaml").write_text("name: t\n" + text)
    sent = requests(sdk, tmp_path, *(f"{number}.yaml" for number in range(len(CASES))))
    for name, request in zip(CASES, sent, strict=True):
        assert (name, request) == (name, bodies[name])


@needs_sdk
def test_the_record_of_samples_is_what_estimators_send(sdk: Preloaded, tmp_path: Path) -> None:
    made = tmp_path / "made.json"
    sdk.run("tests.targets.sdk.requests_of_samples", str(made), environ=environ(tmp_path))
    assert made.read_text() == RECORD.read_text()


@pytest.mark.parametrize("name", CASES)
def test_nothing_of_a_request_is_left_out(plan_of: PlanOf, name: str) -> None:
    """Without the SDK: each field has an argument."""
    _, body = case_body(plan_of, name)
    assert estimator_arguments(body)


def test_what_no_estimator_can_say_is_refused(plan_of: PlanOf, tmp_path: Path) -> None:
    _, body = case_body(plan_of, "profiler")
    more = {"MlflowConfig": {"MlflowResourceArn": "arn"}, "DebugRuleConfigurations": [{"New": 1}]}
    with pytest.raises(RsctlError) as raised:
        estimator_arguments({**body, **more})
    assert raised.value.findings[0].message == (
        "PyTorch cannot express MlflowConfig.MlflowResourceArn, DebugRuleConfigurations"
    )


def test_version_3_as_code_needs_no_variables(plan_of: PlanOf) -> None:
    job = JOB.replace("  env: {NCCL_DEBUG: INFO}\n", "").replace("    profiler: false\n", "")
    printed = code(plan_of("sagemaker", job))
    assert "environment=" not in printed
    assert """"sagemaker_submit_directory": '"s3://code/sourcedir.tar.gz"',""" in printed
    assert "source_code=" not in printed


def test_without_the_sdk_it_says_where_to_have_it(
    plan_of: PlanOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_of("sagemaker", JOB)
    monkeypatch.setitem(sys.modules, "sagemaker", None)
    with pytest.raises(RsctlError) as raised:
        estimator(str(tmp_path / "job.yaml"))
    (finding,) = raised.value.findings
    assert (finding.code, finding.remedy) == (
        "sdk",
        "install it with rsctl in a separate environment: pip install 'sagemaker<3'; version 3 has "
        "model_trainer instead",
    )


def test_a_job_without_a_package_is_none_for_an_estimator(plan_of: PlanOf, tmp_path: Path) -> None:
    plan_of("sagemaker", JOB.replace("  package: s3://code/sourcedir.tar.gz\n", ""))
    with pytest.raises(RsctlError, match="an estimator starts a package"):
        estimator(str(tmp_path / "job.yaml"))
