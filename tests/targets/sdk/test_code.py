"""`rsctl plan -o python`: the request as code, whole."""

from __future__ import annotations

import ast
import json
from functools import partial
from pathlib import Path

import pytest

from rsctl import api
from rsctl.findings import RsctlError
from rsctl.targets.managed.sdk_calls import (
    CodeExpression,
    SdkCall,
    execute,
    python_code,
    snake,
)
from rsctl.targets.sagemaker import sdk as sagemaker
from rsctl.targets.vertex import sdk as vertex
from tests.kit import command_forks

from .conftest import SAGEMAKER, VERTEX, PlanOf


def test_a_job_for_vertex(plan_of: PlanOf) -> None:
    assert (
        vertex.code(plan_of("vertex", VERTEX))
        == '''\
"""What `rsctl submit` sends for t-aaaaaa, by google-cloud-aiplatform."""

import secrets

from google.cloud import aiplatform

token = secrets.token_hex()  # by which workers and reducers know each other
job = aiplatform.CustomJob(
    display_name="t-aaaaaa",
    worker_pool_specs=[
        {
            "machine_spec": {"machine_type": "n1-standard-8"},
            "replica_count": 1,
            "container_spec": {
                "image_uri": "us-docker.pkg.dev/p/r/i:1",
                "command": ["rsctl-launch"],
                "args": ["--launcher", "once", "--", "ls"],
                "env": [
                    {"name": "RSCTL_AWAITED_ROLES", "value": "worker"},
                    {"name": "RSCTL_TOKEN", "value": token},
                    {"name": "RSCTL_OUTPUT_DIR", "value": "/gcs/bucket/out"},
                    {"name": "RSCTL_CHECKPOINT_DIR", "value": "/gcs/bucket/out/checkpoints"},
                    {"name": "RSCTL_RUN", "value": "t-aaaaaa"},
                    {"name": "RSCTL_TARGET", "value": "vertex"},
                ],
            },
        },
        {
            "machine_spec": {"machine_type": "n1-standard-8"},
            "replica_count": 1,
            "container_spec": {
                "image_uri": "us-docker.pkg.dev/p/r/i:1",
                "command": ["rsctl-launch"],
                "args": ["--launcher", "once", "--", "ls"],
                "env": [
                    {"name": "RSCTL_AWAITED_ROLES", "value": "worker"},
                    {"name": "RSCTL_TOKEN", "value": token},
                    {"name": "RSCTL_OUTPUT_DIR", "value": "/gcs/bucket/out"},
                    {"name": "RSCTL_CHECKPOINT_DIR", "value": "/gcs/bucket/out/checkpoints"},
                    {"name": "RSCTL_RUN", "value": "t-aaaaaa"},
                    {"name": "RSCTL_TARGET", "value": "vertex"},
                ],
            },
        },
    ],
    base_output_dir="gs://bucket/out",
    project="my-project",
    location="us-central1",
    labels={"rsctl-run": "t-aaaaaa", "rsctl-job": "t"},
    staging_bucket="gs://bucket/out",
)
job.run(service_account="a@b.example", disable_retries=True)
'''
    )


def test_a_job_for_sagemaker(plan_of: PlanOf) -> None:
    submission = plan_of("sagemaker", SAGEMAKER)
    plan = submission.plan
    assert (
        sagemaker.code(submission)
        == f'''\
"""What `rsctl submit` sends for t-aaaaaa, by the SageMaker SDK."""

import boto3
from sagemaker.core.helper.session_helper import Session
from sagemaker.core.training.configs import Compute, OutputDataConfig, StoppingCondition, Tag
from sagemaker.train import ModelTrainer

trainer = ModelTrainer(
    sagemaker_session=Session(boto_session=boto3.Session(region_name="us-east-1")),
    base_job_name="t-aaaaaa",
    training_image="{plan.image.tag}",
    training_input_mode="FastFile",
    role="arn:aws:iam::123456789012:role/train",
    environment={{
        "RSCTL_RUN": "t-aaaaaa",
        "RSCTL_TARGET": "sagemaker",
        "RSCTL_OUTPUT_DIR": "/opt/ml/output/data",
        "RSCTL_CHECKPOINT_DIR": "/opt/ml/output/data/checkpoints",
    }},
    hyperparameters={{"rsctl_arguments_0": '["--launcher", "once", "--", "ls"]'}},
    compute=Compute(instance_type="ml.m5.xlarge", instance_count=2, volume_size_in_gb=30),
    stopping_condition=StoppingCondition(max_runtime_in_seconds=86400),
    output_data_config=OutputDataConfig(s3_output_path="s3://bucket/out"),
    tags=[Tag(key="rsctl:run", value="t-aaaaaa"), Tag(key="rsctl:job", value="t")],
)
trainer.train()
'''
    )


def test_a_job_without_a_bucket_is_none_that_the_sdk_can_have(plan_of: PlanOf) -> None:
    """Its constructor raises without one, and sends a folder of its own with one."""
    text = VERTEX.replace("outputs: gs://bucket/out", "run: {command: [ls], launcher: none}")
    with pytest.raises(RsctlError) as caught:
        vertex.code(plan_of("vertex", text))
    (finding,) = caught.value.findings
    assert finding.message == "aiplatform.CustomJob requires a bucket, and this job has none"
    assert (finding.path, finding.remedy) == (
        "targets.vertex.staging",
        "set targets.vertex.staging or outputs, or use -o json",
    )


def test_secrets_are_not_in_the_code(plan_of: PlanOf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hidden")
    run = "run: {command: [ls], launcher: once, env: {HF_TOKEN: '${HF_TOKEN}'}}\n"
    reducers = "reducers: {count: 1}\n"
    printed = vertex.code(plan_of("vertex", run + reducers + VERTEX))
    assert "import os\nimport secrets\n" in printed
    assert printed.count('{"name": "HF_TOKEN", "value": os.environ["HF_TOKEN"]}') == 3
    assert printed.count('{"name": "RSCTL_TOKEN", "value": token}') == 3
    printed = sagemaker.code(plan_of("sagemaker", run + reducers + SAGEMAKER))
    assert '"HF_TOKEN": os.environ["HF_TOKEN"],' in printed
    assert '"RSCTL_TOKEN": secrets.token_hex(),' in printed


def test_words_that_only_look_like_code_import_nothing(plan_of: PlanOf) -> None:
    run = "run: {command: [ls, --tokenizer, os.environ, secrets.txt], launcher: none}\n"
    assert "import secrets" not in vertex.code(plan_of("vertex", run + VERTEX))
    printed = sagemaker.code(plan_of("sagemaker", run + SAGEMAKER))
    assert "import os" not in printed
    assert "import secrets" not in printed


def test_what_an_sdk_has_no_words_for(plan_of: PlanOf) -> None:
    text = VERTEX.replace("a@b.example", "a@b.example, dashboard_access: true")
    with pytest.raises(RsctlError, match=r"aiplatform\.CustomJob\.run cannot express jobSpec\."):
        vertex.code(plan_of("vertex", text))
    text = SAGEMAKER.replace('train"', 'train", experiment: {experiment: e}')
    with pytest.raises(RsctlError, match="ModelTrainer cannot express ExperimentConfig"):
        sagemaker.code(plan_of("sagemaker", text))


AWS = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.6.0-cpu-py312"
FOREIGN = SAGEMAKER.replace("base: b, repository:", "uri:").replace(
    "123456789012.dkr.ecr.us-east-1.amazonaws.com/i", AWS
)
WITH_SOURCE = FOREIGN.replace("py312}", "py312, source: source}").replace(
    'train"}', 'train", staging: "s3://bucket/staging"}'
)


def printed_lines(printed: str) -> list[str]:
    return [line.strip() for line in printed.splitlines()]


def test_source_for_an_image_of_aws_is_uploaded_by_the_sdk(plan_of: PlanOf, tmp_path: Path) -> None:
    (tmp_path / "source" / "train.py").write_text("")
    run = "run: {script: train.py, args: {name: a b, amp: true}}\n"
    lines = printed_lines(sagemaker.code(plan_of("sagemaker", run + WITH_SOURCE)))
    assert 'default_bucket="bucket",' in lines
    assert 'default_bucket_prefix="staging",' in lines
    at = lines.index("source_code=SourceCode(")
    assert lines[at : at + 5] == [
        "source_code=SourceCode(",
        f'source_dir="{tmp_path}/source",',
        'command="torchrun --nnodes=$SM_HOST_COUNT --node_rank=$SM_CURRENT_HOST_RANK '
        '--master_addr=$SM_MASTER_ADDR --master_port=$SM_MASTER_PORT --nproc_per_node=1",',
        'args=["train.py", "--name", "a b", "--amp"],',
        "),",
    ]
    assert not any("rsctl_arguments" in line or "packages/" in line for line in lines)


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ("script: t$.py, args: [$$, '$${local_rank}']", ["t$$.py", "$$$$", "$${local_rank}"]),
        ("command: [./t$, $$], launcher: torchrun", ["./t$", "$$$$"]),
    ],
)
def test_torchrun_of_the_image_leaves_arguments_as_written(
    plan_of: PlanOf, tmp_path: Path, run: str, words: list[str]
) -> None:
    """torchrun replaces `$$` by `$`, except in the name of a program."""
    for name in ("t$.py", "t$"):
        (tmp_path / "source" / name).write_text("")
    lines = printed_lines(sagemaker.code(plan_of("sagemaker", f"run: {{{run}}}\n" + WITH_SOURCE)))
    assert f"args={json.dumps(words)}," in lines


def test_source_that_is_started_once(plan_of: PlanOf, tmp_path: Path) -> None:
    (tmp_path / "source" / "train.py").write_text("")
    run = "run: {script: train.py, launcher: once}\n"
    printed = sagemaker.code(plan_of("sagemaker", run + WITH_SOURCE))
    assert 'command="python3",' in printed_lines(printed)
    assert 'args=["train.py"],' in printed_lines(printed)


def test_what_needs_our_runtime_is_started_by_rsctl_alone(plan_of: PlanOf, tmp_path: Path) -> None:
    (tmp_path / "source" / "train.py").write_text("")
    for setting, named in (("reducers: {count: 1}", "reducers"), ("comm: {bucket_mb: 1}", "comm")):
        text = f"run: {{script: train.py}}\n{setting}\n{WITH_SOURCE}"
        with pytest.raises(RsctlError, match=f"image.source beside image.uri with {named}"):
            sagemaker.code(plan_of("sagemaker", text))


def test_an_image_that_starts_by_itself_needs_no_words(plan_of: PlanOf) -> None:
    submission = plan_of("sagemaker", "run: {launcher: none}\n" + FOREIGN)
    printed = sagemaker.code(submission)
    assert f'training_image="{AWS}",' in printed
    assert "SourceCode" not in printed
    assert "hyperparameters" not in printed


def test_a_command_for_a_foreign_image(plan_of: PlanOf) -> None:
    run = "run: {command: [bash, -c, 'echo  $A'], launcher: none}\n"
    printed = sagemaker.code(plan_of("sagemaker", run + FOREIGN))
    assert 'source_code=SourceCode(command="bash", args=["-c", "echo  $A"]),' in printed


def test_an_image_of_ones_own_with_our_launcher(plan_of: PlanOf) -> None:
    printed = sagemaker.code(plan_of("sagemaker", FOREIGN))
    words = '["--launcher", "once", "--", "ls"]'
    assert f'source_code=SourceCode(command="rsctl-launch", args={words}),' in printed


def test_arguments_that_are_too_long_for_the_request(plan_of: PlanOf) -> None:
    run = f"run: {{command: [ls, {'x' * 300}], launcher: once}}\n"
    printed = sagemaker.code(plan_of("sagemaker", run + SAGEMAKER))
    assert '"rsctl_arguments_0": \'["--launcher", "once", "--", "ls", "xxx' in printed


def test_local_source_in_a_foreign_image_is_uploaded_by_rsctl_alone(plan_of: PlanOf) -> None:
    text = VERTEX.replace("i:1}", "i:1, source: source}").replace(
        "region:", "staging: gs://bucket/staging, region:"
    )
    with pytest.raises(RsctlError, match=r"cannot express image\.source beside image\.uri"):
        vertex.code(plan_of("vertex", text))


def test_values_as_python() -> None:
    assert python_code(
        {"a": [1, "it's", None], "b": SdkCall("f", {"x": CodeExpression("os.sep")})}
    ) == ('{"a": [1, "it\'s", None], "b": f(x=os.sep)}')
    assert python_code(SdkCall("f", {})) == "f()"
    assert [snake(n) for n in ("S3OutputPath", "enableWebAccess", "VolumeSizeInGB")] == [
        "s3_output_path",
        "enable_web_access",
        "volume_size_in_gb",
    ]


HOSTILE = 'x=0), __import__("os").system("touch hacked'


def test_names_in_a_request_are_no_code(plan_of: PlanOf) -> None:
    for overlay in (
        {"ResourceConfig": {HOSTILE: 1}},
        {"VpcConfig": {HOSTILE: ["a"]}},
        {"StoppingCondition": {HOSTILE: 1}},
        {"ResourceConfig": {"class": 1}},
        {"RetryStrategy": {HOSTILE: 1}},
        {"CheckpointConfig": {HOSTILE: {HOSTILE: 1}}},
    ):
        submission = plan_of("sagemaker", SAGEMAKER)
        plan = submission.plan
        body = {**plan.request["body"], **overlay}
        plan.request["body"].update(body)
        with pytest.raises(RsctlError, match="ModelTrainer cannot express '"):
            sagemaker.code(submission)
    channel = {"ChannelName": "a", "DataSource": {HOSTILE: {"a": 1}}}
    plan.request["body"].pop("CheckpointConfig")
    plan.request["body"]["InputDataConfig"] = [channel]
    with pytest.raises(RsctlError, match="ModelTrainer cannot express '"):
        sagemaker.code(submission)
    with pytest.raises(ValueError, match="not a valid name in Python"):
        python_code([{"a": SdkCall("f", {HOSTILE: 1})}])
    with pytest.raises(ValueError, match="not a valid name in Python"):
        python_code(SdkCall("f(); g", {}))


def test_texts_in_a_request_are_no_code(plan_of: PlanOf, tmp_path: Path) -> None:
    hostile = '"""\n__import__("os").mkdir("hacked")\n\'\'\'\\'
    submission = plan_of("vertex", VERTEX)
    plan = submission.plan
    container = plan.request["body"]["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]
    container["args"].append(hostile)
    container["env"].append({"name": hostile, "value": None})
    container["env"].append({hostile: hostile})
    plan.request["body"]["labels"][hostile] = hostile
    code = vertex.code(submission)
    names = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call):
            names.add(ast.unparse(node.func))
    assert names == {"aiplatform.CustomJob", "job.run", "secrets.token_hex"}


def test_calls_within_lists_and_mappings_are_made() -> None:
    made = SdkCall("f", {"a": [SdkCall("g", {"n": 1}), "x"], "b": {"c": SdkCall("g", {"n": 2})}})
    functions = {"f": lambda a, b: (a, b), "g": lambda n: -n}
    assert execute(made, functions) == ([-1, "x"], {"c": -2})


@pytest.mark.parametrize("run", ['"""\nimport os', "A", "-a", "a b", "", "a\n", "a" * 64])
def test_what_is_no_run_id_is_refused(run: str, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("name: t\nrun: {command: [ls], launcher: once}\n" + VERTEX)
    with pytest.raises(RsctlError, match="is not a valid run ID"):
        vertex.custom_job(str(tmp_path / "job.yaml"), run)
    with pytest.raises(RsctlError, match="is not a valid run ID"):
        api.sdk_code(tmp_path / "job.yaml", "vertex", run_id=run)


def test_the_command_line(tmp_path: Path, command_server: Path) -> None:
    job = "name: t\nrun: {command: [ls], launcher: once}\n"
    (tmp_path / "job.yaml").write_text(job + VERTEX)
    (tmp_path / "local.yaml").write_text(job)
    plan = partial(command_forks.run, command_server, "plan", cwd=tmp_path)

    done = plan("job.yaml", "-t", "vertex", "-o", "python", "--run-id", "t-bbbbbb")
    assert done.code == 0, done.err
    assert done.out.startswith('"""What `rsctl submit` sends for t-bbbbbb')
    done = plan("local.yaml", "-t", "process", "-o", "python")
    assert (done.code, done.out) == (2, "")
    assert "target process has no SDK" in done.err
    done = plan("job.yaml", "-t", "vertex", "-o", "python", "--run-id", '"""\nimport os')
    assert (done.code, done.out) == (2, "")
    assert "is not a valid run ID" in done.err
