"""A job with lists of regions and machines is planned for each placement, in order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from rsctl import api
from rsctl.api.job_file import make_submission
from rsctl.findings import Finding, RsctlError
from rsctl.targets.base import Plan, Submission

JOB = """\
name: t
run: {script: train.py}
image:
  base: python:3.11-slim
  repository:
    vertex: "{region}-docker.pkg.dev/p/r/i"
    sagemaker: "123456789012.dkr.ecr.{region}.amazonaws.com/t"
workers:
  count: 2
  machine:
    vertex: [n1-standard-16, n2-standard-8]
    sagemaker: [ml.c5.4xlarge, ml.m5.xlarge]
inputs:
  train: {uri: {vertex: "gs://data-{region}/x", sagemaker: "s3://data-{region}/x", local: x}}
limits: {timeout: 1h}
targets:
  vertex: {project: my-project, region: [us-central1, us-east1], staging: "gs://stag-{region}/s"}
  sagemaker:
    region: [us-east-1, us-west-2]
    role: arn:aws:iam::123456789012:role/t
    staging: s3://stag-{region}/s
"""


@pytest.fixture
def job(tmp_path: Path) -> str:
    (tmp_path / "train.py").write_text("print('hi')\n")
    (tmp_path / "x").mkdir()
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    return str(path)


def submission(job: str, target: str, **settings: Any) -> Submission:
    return make_submission(api.load(job, set=settings, strict=False), target)


def errors(job: str, target: str, **settings: Any) -> list[tuple[str | None, str]]:
    """The paths and messages of all errors."""
    with pytest.raises(RsctlError) as caught:
        submission(job, target, **settings)
    return [(f.path, f.message) for f in caught.value.findings if f.is_error]


def warnings(plan: Plan) -> list[Finding]:
    return [finding for finding in plan.findings if finding.severity == "warning"]


def test_all_machines_of_a_region_come_before_the_next_region(job: str) -> None:
    plan = submission(job, "vertex").plan
    assert [(placement.region, placement.machine) for placement in plan.alternatives or ()] == [
        ("us-central1", "n2-standard-8"),
        ("us-east1", "n1-standard-16"),
        ("us-east1", "n2-standard-8"),
    ]
    assert "/locations/us-central1/" in plan.request["url"]
    assert warnings(plan) == []


@pytest.mark.parametrize("target", ["vertex", "sagemaker"])
def test_each_placement_has_its_own_endpoint_machine_image_and_buckets(
    job: str, target: str
) -> None:
    first = submission(job, target)
    for each in (first, *first.alternatives):
        placement, text = each.placement, str(each.plan.request)
        elsewhere = {"vertex": ("us-central1", "us-east1"), "sagemaker": ("us-east-1", "us-west-2")}
        (other,) = {*elsewhere[target]} - {str(placement.region)}
        assert other not in text
        assert {pool.machine for pool in each.plan.pools} == {placement.machine}
        assert str(placement.region) in str(each.plan.image.tag)
        assert f"data-{placement.region}/x" in text


def test_a_plan_of_one_placement_has_no_alternatives(job: str) -> None:
    one = {"workers.machine": "n1-standard-16", "targets.vertex.region": "us-east1"}
    assert submission(job, "vertex", **one).plan.alternatives is UNSET


def test_a_finding_names_the_item_of_the_list(job: str) -> None:
    settings = {
        "targets.vertex.region": ["us-central1", "us-nowhere1", "us-central1"],
        "workers.machine": {"vertex": ["n1-standard-16", "n1-standard-17"]},
    }
    found = errors(job, "vertex", **settings)
    assert ("targets.vertex.region[2]", "us-central1 is listed twice") in found
    assert [path for path, _ in found if path and path.startswith("workers")] == [
        "workers.machine.vertex[1]"
    ]


def test_a_region_that_lacks_the_accelerator_is_named(job: str) -> None:
    settings = {
        "workers.accelerator": "v100:8",
        "workers.machine": "n1-standard-64",
        "targets.vertex.region": ["us-central1", "europe-west2"],
    }
    assert errors(job, "vertex", **settings)[0][0] == "targets.vertex.region[1]"


def test_a_plain_list_of_machines_is_for_the_target_that_is_meant(job: str) -> None:
    plan = submission(job, "sagemaker", **{"workers.machine": ["ml.c5.xlarge", "ml.m5.xlarge"]})
    assert plan.alternatives[0].placement.machine == "ml.m5.xlarge"
    found = errors(job, "sagemaker", **{"workers.machine": ["ml.c5.xlarge", "n1-standard-8"]})
    assert {path for path, _ in found} == {"workers.machine[1]"}
    local = {"workers.machine": ["a", "b"], "workers.count": 1}
    assert submission(job, "process", **local).alternatives == ()


def test_machines_on_which_there_would_be_other_ranks_are_refused(job: str) -> None:
    machines = ["ml.g5.12xlarge", "ml.g5.48xlarge"]
    settings = {"workers.machine": machines, "workers.accelerator": "a10g:4"}
    assert {path for path, _ in errors(job, "sagemaker", **settings)} == {"workers.machine[1]"}


def test_what_is_of_one_region_does_not_go_with_several(job: str) -> None:
    vpc = {
        "targets.sagemaker.subnets": ["subnet-1"],
        "targets.sagemaker.security_groups": ["sg-1"],
        "targets.sagemaker.instance_preferences": ["ml.c5.9xlarge"],
    }
    assert {path for path, _ in errors(job, "sagemaker", **vpc)} == {
        "targets.sagemaker.subnets",
        "targets.sagemaker.security_groups",
        "targets.sagemaker.instance_preferences",
    }
    one = {"targets.sagemaker.region": "us-east-1", "workers.machine": "ml.c5.4xlarge"}
    assert submission(job, "sagemaker", **vpc, **one).alternatives == ()


def test_buckets_and_images_that_stay_where_they_are_are_warned_of(job: str) -> None:
    settings = {
        "inputs": {"train": "gs://data/x"},
        "image.repository": "us-central1-docker.pkg.dev/p/r/i",
    }
    found = warnings(submission(job, "vertex", **settings).plan)
    assert [(finding.code, finding.path) for finding in found] == [
        ("placements", "inputs.train"),
        ("image", "image.repository"),
    ]
    assert found[1].message.startswith("in us-east1, n1-standard-16: the image is in us-central1")


def test_the_dearest_placement_is_what_a_limit_of_cost_refuses(job: str) -> None:
    cheap = submission(job, "vertex", **{"workers.machine": "n2-standard-8"}).plan.cost
    assert cheap
    limit = {"limits.cost": f"{(cheap.most or 0) + 0.1:.2f} USD"}
    only = {"workers.machine": {"vertex": ["n2-standard-8", "n1-standard-16"]}}
    found = errors(job, "vertex", **limit, **only)
    assert [path for path, _ in found] == ["limits.cost"]
    assert found[0][1].startswith("in us-central1, n1-standard-16: the job can cost")


def test_too_many_placements_are_taken_for_a_mistake(job: str) -> None:
    many = {"workers.machine": [f"ml.c5.{n}xlarge" for n in range(2, 20)]}
    assert ("workers.machine[0]", "2 regions and 18 machine types are 36 placements, and at most "
            "16 are possible") in errors(job, "sagemaker", **many)  # fmt: skip


def test_a_name_with_a_region_is_refused_where_there_are_none(job: str) -> None:
    settings = {"image": {"base": "b", "repository": "{region}-docker.pkg.dev/p/r/i"}}
    assert errors(job, "compose", **settings)[0] == (
        "image.repository",
        "target compose has no regions, and the name contains {region}",
    )


def test_code_of_a_vendors_sdk_says_what_it_leaves_out(job: str) -> None:
    settings = {"targets.vertex.staging": "gs://stag/s", "workers.machine": "n1-standard-16"}
    code = api.sdk_code(api.load(job, set=settings), "vertex", run_id="t-aaaaaa")
    assert code.startswith(
        "# For us-central1, n1-standard-16 only. `rsctl submit` continues with: us-east1, "
        "n1-standard-16\n"
    )


def test_a_matrix_may_have_the_regions_as_cells_or_as_one_value(job: str) -> None:
    path = Path(job)
    path.write_text(JOB + "matrix: {targets.vertex.region: [us-west1, [us-east1, us-west1]]}\n")
    file = api.load(job)
    assert [cell["targets.vertex.region"] for cell in file.cells] == [
        "us-west1",
        ["us-east1", "us-west1"],
    ]
