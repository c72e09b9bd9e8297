"""Target sagemaker: what a plan says of how it came about."""

from __future__ import annotations

from pathlib import Path

import pytest

from .case_parts import VPC, reducers, workers
from .rendering import URI, render, reported, sagemaker

NOTES = {
    "without a time limit": (
        {},
        [
            "note workers.machine: ml.m5.xlarge, the smallest for CPU jobs",
            "note limits: SageMaker ends the job after 1 day, its default -> set limits.timeout",
        ],
    ),
    "auto with one worker": (
        {**workers(1, "t4"), "reducers": {"count": "auto"}},
        ["note reducers.count: 0 reducers: a single worker exchanges no gradients"],
    ),
    "auto beside EFA": (
        {**workers(4, "a100-40gb:8"), "reducers": {"count": "auto"}},
        [
            "note reducers.count: 0 reducers: ml.p4d.24xlarge has its own transport (EFA, 400 "
            "Gbit/s), which reducers do not use: to be as fast over TCP, the job would need 4 x "
            "400 / 100 = 16 machines ml.c5n.18xlarge"
        ],
    ),
    "auto on a machine of the user's": (
        reducers("auto", 8, **{"reducers": {"count": "auto", "machine": "ml.c5n.18xlarge"}}),
        ["note reducers.count: 4 reducers on ml.c5n.18xlarge: 8 workers x 40 Gbit/s / 100 Gbit/s"],
    ),
    "auto for two": (
        reducers("auto", 2, **{"reducers": {"count": "auto", "machine": "ml.c5n.18xlarge"}}),
        ["note reducers.count: 1 reducer on ml.c5n.18xlarge: 2 workers x 40 Gbit/s / 100 Gbit/s"],
    ),
    "reducers that may be lost": (
        reducers(2, comm={"on_reducer_loss": "fallback"}, checkpoints="s3://bucket/c"),
        [
            "note comm.on_reducer_loss: the workers continue when the program of a reducer ends "
            "or does not answer; if the container of a reducer fails or its machine is lost, "
            "SageMaker ends or restarts the job -> set limits.retries"
        ],
    ),
    "a metric that CloudWatch does not get": (
        {"metrics": {"l": {"regex": r"(?P<step>\d) (?P<value>\d)"}}},
        [
            "note metrics.l: l does not reach CloudWatch: SageMaker uses the first group as the "
            "value, and here it is a different one; rsctl reads it from the log"
        ],
    ),
    "a regex that CloudWatch does not take": (
        {"metrics": {"l": {"regex": "l=(.)" + "x" * 495}, "m": {"regex": "m=(.)" + "x" * 496}}},
        [
            "note metrics.m: m does not reach CloudWatch: its regex has 501 characters, and "
            "SageMaker allows 500; rsctl reads it from the log"
        ],
    ),
    "SMDDP in an image that may be based on one of AWS": (
        {**workers(2, "a100-40gb:8"), "comm": {"backend": "smddp"}},
        [
            "note comm.backend: only AWS's own images contain smddp; check that "
            f"{URI} is based on one"
        ],
    ),
    "a grace that nothing of rsctl gives": (
        {"limits": {"grace": "1m"}, "run": {"launcher": "none"}},
        ["note limits.grace: limits.grace is not used: rsctl-launch is not in the container"],
    ),
    "more metrics than CloudWatch gets": (
        {"metrics": {f"m{n}": {"regex": f"m{n}=(.)"} for n in range(41)}},
        [
            "note metrics.m40: m40 does not reach CloudWatch: SageMaker allows 40 metrics; rsctl "
            "reads it from the log"
        ],
    ),
    "a prefix": (
        {"inputs": {"train": "s3://bucket/mnli"}},
        [
            "note inputs.train: SageMaker reads every object whose name starts with "
            "s3://bucket/mnli, also in other folders -> for a folder, write s3://bucket/mnli/"
        ],
    ),
    "a pipe": (
        {"inputs": {"train": "s3://bucket/a/"}, **sagemaker(input_mode="Pipe")},
        ["note inputs.train: mode Pipe: RSCTL_INPUT_TRAIN with _0 at its end is the first pipe"],
    ),
    "machines in a VPC": (
        {**workers(2), **sagemaker(**VPC)},
        [
            "note targets.sagemaker.security_groups: the machines reach each other only if the "
            "security groups allow all TCP within"
        ],
    ),
    "a wait for spot machines": (
        {
            "limits": {"spot": True, "timeout": "8h", "queue": "30m"},
            "checkpoints": "s3://bucket/c",
        },
        [
            "note workers.machine: ml.m5.xlarge, the smallest for CPU jobs",
            "note limits.queue: SageMaker limits the waits and the running time together, to "
            "8h30m; rsctl ends a wait of more than 30m, but only while a command watches the job "
            "(submit, watch, logs -f, status --watch)",
        ],
    ),
    "a longer time than the default quota": (
        {"limits": {"timeout": "6d"}},
        [
            "note workers.machine: ml.m5.xlarge, the smallest for CPU jobs",
            "note limits.timeout: by default the quota 'Longest run time for a training job' is "
            "432000 seconds, 5 days -> `rsctl doctor JOB` shows your quota",
        ],
    ),
    "more machines than the default quota": (
        workers(21),
        [
            "note workers.machine: ml.m5.xlarge, the smallest for CPU jobs",
            "note workers.count: by default the quota 'Maximum number of instances per training "
            "job' is 20, and the job has 21 -> `rsctl doctor JOB` shows your quota",
        ],
    ),
    "machines with EFA in a VPC": (
        {**workers(2, "a100-40gb:8"), **sagemaker(encrypt_traffic=True, **VPC)},
        [
            "note targets.sagemaker.security_groups: the machines reach each other only if the "
            "security groups allow all traffic within, in and out, which EFA needs"
        ],
    ),
    "encrypted traffic in a VPC": (
        {**workers(2), **sagemaker(encrypt_traffic=True, **VPC)},
        [
            "note targets.sagemaker.security_groups: the machines reach each other only if the "
            "security groups allow all TCP within, and UDP 500 and protocol 50 (ESP), which "
            "encrypt_traffic needs"
        ],
    ),
    "inputs that reducers get too": (
        reducers(
            2,
            inputs={"a": "s3://bucket/a/"},
            **sagemaker(file_systems={"d": {"id": "fs-01234567", "type": "EFS"}}, **VPC),
        ),
        [
            "note targets.sagemaker.file_systems: reducers get the inputs too: with a file "
            "system, rsctl cannot exclude them"
        ],
    ),
}


@pytest.mark.parametrize("title", NOTES)
def test_what_is_worth_knowing(title: str, tmp_path: Path) -> None:
    changes, expected = NOTES[title]
    notes = reported(tmp_path, changes, "note")
    assert [text for text in expected if text not in notes] == []


@pytest.mark.parametrize("title", ["auto with one worker", "auto beside EFA"])
def test_a_job_without_a_use_for_reducers_has_none(title: str, tmp_path: Path) -> None:
    plan = render(tmp_path, NOTES[title][0])
    assert [pool["role"] for pool in plan["pools"]] == ["worker"]
