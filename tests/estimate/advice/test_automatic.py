"""`reducers.count: auto`: by the model where the job says what a step does, else by the rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

import rsctl.api
from rsctl.estimate.advice.automatic import automatic_reducers
from rsctl.estimate.catalog import load
from rsctl.job.document import read
from rsctl.targets.base import Plan

LARGE = {"parameters": "340M", "step_seconds": 0.3}
SMALL = {"parameters": "100K", "step_seconds": 0.5}
SAGEMAKER = {
    "accelerator": "a10g:4",
    "target": "sagemaker",
    "options": {"region": "us-east-1", "role": "arn:aws:iam::123456789012:role/train"},
    "outputs": "s3://bucket/runs",
    "repository": "123456789012.dkr.ecr.us-east-1.amazonaws.com/x",
}
VERTEX = {
    "accelerator": None,
    "target": "vertex",
    "options": {"project": "my-project", "region": "us-central1", "staging": "gs://bucket/s"},
    "outputs": "gs://bucket/runs",
    "repository": "us-docker.pkg.dev/my-project/train/x",
}


def job_file(folder: Path, cloud: dict[str, Any], model: Any, workers: int = 8) -> str:
    (folder / "train.py").write_text("print(1)\n")
    job = {
        "name": "job",
        "target": cloud["target"],
        "image": {"base": "pytorch/pytorch:2.8.0", "repository": cloud["repository"]},
        "run": {"script": "train.py"},
        "workers": {"count": workers, "accelerator": cloud["accelerator"]},
        "reducers": {"count": "auto"},
        "outputs": cloud["outputs"],
        "model": model,
        "targets": {cloud["target"]: cloud["options"]},
    }
    if cloud["accelerator"] is None:
        del job["workers"]["accelerator"]  # type: ignore[attr-defined]
    if model is None:
        del job["model"]
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    return str(folder / "job.yaml")


def reducers(plan: Plan) -> tuple[int, str]:
    """How many the plan has, and its note about them."""
    [note] = [
        f.message for f in plan.findings if f.path == "reducers.count" and "reducer" in f.message
    ]
    return sum(pool.count for pool in plan.pools if pool.role == "reducer"), note


@pytest.mark.parametrize("cloud", [SAGEMAKER, VERTEX], ids=["sagemaker", "vertex"])
def test_a_small_model_gets_none(tmp_path: Path, cloud: dict[str, Any]) -> None:
    count, note = reducers(rsctl.api.plan(job_file(tmp_path, cloud, SMALL)))
    assert count == 0
    assert "they would cost more than they save, according to model.step_seconds" in note


def test_without_prices_a_small_model_gains_nothing(tmp_path: Path) -> None:
    job = read(job_file(tmp_path, VERTEX, SMALL)).require_job()
    unpriced = replace(load("vertex").machines["n1-standard-4"], name="unpriced-4")
    found = automatic_reducers(job, "vertex", unpriced, unpriced)
    assert found is not None
    assert (found.reducers, found.why) == (
        0,
        "no gain, according to model.step_seconds: a step of 0.502 s without; see rsctl advise",
    )


def test_eight_bits_get_some_at_any_price(tmp_path: Path) -> None:
    path = job_file(tmp_path, SAGEMAKER, SMALL)
    count, note = reducers(rsctl.api.plan(rsctl.api.load(path, set=["comm.compression=int8"])))
    assert count > 0
    assert "s with them" in note


def test_a_large_one_gets_what_advice_says_of_the_same_machine(tmp_path: Path) -> None:
    path = job_file(tmp_path, SAGEMAKER, LARGE)
    plan = rsctl.api.plan(path)
    [machine] = [pool.machine for pool in plan.pools if pool.role == "reducer"]
    same = rsctl.api.load(path, set={"reducers.machine": machine})
    advice = rsctl.api.advise(same)
    count, note = reducers(plan)
    assert count == advice.recommendation.reducers > 0
    assert f"{advice.recommendation.step_seconds:.3g} s with them; see rsctl advise" in note


@pytest.mark.parametrize("model", [None, {"parameters": "340M"}], ids=["none", "no step"])
def test_without_facts_it_is_the_rule_of_bandwidths(tmp_path: Path, model: Any) -> None:
    count, note = reducers(rsctl.api.plan(job_file(tmp_path, SAGEMAKER, model)))
    assert (count, note) == (
        7,
        "7 reducers on ml.c5n.9xlarge: 8 workers x 40 Gbit/s / 50 Gbit/s",
    )


def test_reduction_server_keeps_its_documented_rule(tmp_path: Path) -> None:
    cloud = {**VERTEX, "accelerator": "v100:8"}
    with_facts = reducers(rsctl.api.plan(job_file(tmp_path, cloud, SMALL)))
    assert with_facts == reducers(rsctl.api.plan(job_file(tmp_path, cloud, None)))
