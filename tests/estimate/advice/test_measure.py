"""The job that measures a script."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from rsctl.estimate.advice.measure import job_to_measure, measure_findings
from rsctl.job.document import read
from rsctl.job.job import Job

JOB = """
name: job
run: {script: train.py, env: {LR: "0.1"}}
workers: {count: 8}
reducers: {count: 4}
comm: {backend: rsctl, bucket_mb: 50, compression: bf16}
outputs: gs://bucket/runs
checkpoints: gs://bucket/kept
metrics: {loss: {regex: 'loss=(?P<value>.*)', goal: min}}
gate: {max_regression: {loss: 5%}}
matrix: {workers.count: [2, 4]}
"""


@pytest.fixture
def job(tmp_path: Path) -> Job:
    (tmp_path / "train.py").touch()
    (tmp_path / "job.yaml").write_text(JOB)
    return read(str(tmp_path / "job.yaml")).require_job()


@pytest.mark.parametrize(
    ("communicates", "nodes", "comm"),
    [(False, 1, ("auto", 1, "none")), (True, 2, ("auto", 50, "bf16"))],
)
def test_the_script_is_measured_alone_or_between_two_nodes(
    job: Job, communicates: bool, nodes: int, comm: tuple[str, int, str]
) -> None:
    made = job_to_measure(job, 20, communicates, 60)
    assert (made.workers.count, made.reducers.count) == (nodes, 0)
    assert (made.comm.backend, made.comm.bucket_mb, made.comm.compression) == comm
    assert {name: str(value) for name, value in made.run.env.items()} == {
        "LR": "0.1",
        "RSCTL_MEASURE_STEPS": "20",
        "RSCTL_MEASURE_COMM": str(int(communicates)),
    }
    assert (made.outputs, made.checkpoints, made.gate) == (None, None, None)
    assert (made.metrics, made.matrix, made.limits.timeout) == ({}, {}, 60)


@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_two_nodes_exchange_by_the_jobs_own_backend(job: Job, backend: str) -> None:
    given = replace(job, comm=replace(job.comm, backend=backend))
    assert job_to_measure(given, 20, True, 60).comm.backend == backend


def test_a_script_that_rsctl_does_not_launch_cannot_be_measured(job: Job) -> None:
    assert measure_findings(job) == []
    [finding] = measure_findings(replace(job, run=replace(job.run, launcher="none")))
    assert (finding.is_error, finding.path) == (True, "run.launcher")
