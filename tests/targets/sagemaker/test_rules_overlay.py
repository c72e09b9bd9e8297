"""Target sagemaker: rules hold for what an overlay brings in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsctl.job.job import Job, RunBlock
from rsctl.targets.managed.overlay import apply_overlay
from rsctl.targets.sagemaker.api_model import model, problems
from rsctl.targets.sagemaker.request_checks import body_findings

from .case_parts import reducers
from .rendering import ROLE, reported, sagemaker

OVERLAY = "targets.sagemaker.overlay"
JOB = Job(name="job", run=RunBlock())

GROUP = {"InstanceGroupName": "workers", "InstanceType": "ml.c5.xlarge", "InstanceCount": 1}
COUNTS = (
    "with this patch, ResourceConfig.InstancePreferences: either ResourceConfig or all "
    "InstancePreferences must have an InstanceCount -> correct the patch"
)


def preferring(*each: dict[str, Any], shared: int | None) -> dict[str, Any]:
    """Two preferred machines by overlay; `shared` is the number for both."""
    types = ("ml.c5.xlarge", "ml.c5.2xlarge")
    preferences = [{"InstanceType": name, **one} for name, one in zip(types, each, strict=True)]
    patch = {"InstanceType": None, "InstanceCount": shared, "InstancePreferences": preferences}
    return sagemaker(overlay={"ResourceConfig": patch})


PATCHES = {
    "a field that does not exist": (
        sagemaker(overlay={"StoppingCondtion": {}}),
        [
            f"error {OVERLAY}: with this patch, StoppingCondtion: SageMaker has no such field "
            f"(according to botocore {model().botocore}) -> correct the patch"
        ],
    ),
    "a value that may be newer than rsctl": (
        sagemaker(overlay={"ResourceConfig": {"InstanceType": "ml.p7.48xlarge"}}),
        [
            f"warning {OVERLAY}: with this patch, ResourceConfig.InstanceType: 'ml.p7.48xlarge' "
            "is not one of ml.m4.xlarge, ml.m4.2xlarge, ml.m4.4xlarge, ml.m4.10xlarge, "
            "ml.m4.16xlarge, ml.g4dn.xlarge, ml.g4dn.2xlarge, ml.g4dn.4xlarge and 217 more -> "
            "correct it, unless the field is newer than this version of rsctl"
        ],
    ),
    "another name": (
        sagemaker(overlay={"TrainingJobName": "mine"}),
        [
            f"error {OVERLAY}: it changes TrainingJobName, which is the run ID -> remove that "
            "change; the first part of the ID is the job's name"
        ],
    ),
    "other tags": (
        sagemaker(overlay={"Tags": []}),
        [
            f"error {OVERLAY}: it removes or changes the tag rsctl:run, which rsctl uses to find "
            "the job -> remove that change; set your own tags in targets.sagemaker.tags"
        ],
    ),
    "groups beside a type": (
        sagemaker(
            overlay={
                "ResourceConfig": {
                    "InstanceGroups": [
                        {
                            "InstanceGroupName": "g",
                            "InstanceType": "ml.c5.xlarge",
                            "InstanceCount": 1,
                        }
                    ]
                }
            }
        ),
        [
            f"error {OVERLAY}: with this patch, ResourceConfig: it has InstanceType and "
            "InstanceGroups, but must have exactly one of them -> correct the patch"
        ],
    ),
    "a list of types, for spot": (
        {
            "limits": {"spot": True, "queue": "1h"},
            "checkpoints": "s3://bucket/c",
            **sagemaker(
                overlay={
                    "ResourceConfig": {
                        "InstanceType": None,
                        "InstanceCount": None,
                        "InstancePreferences": [
                            {"InstanceType": "ml.c5.xlarge", "InstanceCount": 1}
                        ],
                    }
                }
            ),
        },
        [
            f"error {OVERLAY}: with this patch, EnableManagedSpotTraining: it cannot be combined "
            "with InstancePreferences -> correct the patch"
        ],
    ),
    "groups beside a number": (
        sagemaker(overlay={"ResourceConfig": {"InstanceType": None, "InstanceGroups": [GROUP]}}),
        [
            f"error {OVERLAY}: with this patch, ResourceConfig.InstanceCount: it cannot be "
            "combined with InstanceGroups, which have their own numbers -> correct the patch"
        ],
    ),
    "preferences of which one has a number": (
        preferring({"InstanceCount": 2}, {}, shared=None),
        [f"error {OVERLAY}: {COUNTS}"],
    ),
    "preferences with numbers beside the job's": (
        preferring({"InstanceCount": 1}, {"InstanceCount": 2}, shared=1),
        [f"error {OVERLAY}: {COUNTS}"],
    ),
    "preferences without numbers": (
        preferring({}, {}, shared=None),
        [f"error {OVERLAY}: {COUNTS}"],
    ),
    "a preference twice": (
        preferring({}, {"InstanceType": "ml.c5.xlarge"}, shared=1),
        [
            f"error {OVERLAY}: with this patch, ResourceConfig.InstancePreferences: ml.c5.xlarge "
            "is listed twice -> correct the patch"
        ],
    ),
    "preferences with a number each": (
        preferring({"InstanceCount": 1}, {"InstanceCount": 2}, shared=None),
        [],
    ),
    "an instance group that does not exist": (
        reducers(
            2,
            inputs={"a": "s3://bucket/a/"},
            **sagemaker(
                overlay=[
                    {
                        "op": "replace",
                        "path": "/InputDataConfig/0/DataSource/S3DataSource/InstanceGroupNames",
                        "value": ["gpus"],
                    }
                ]
            ),
        ),
        [
            f"error {OVERLAY}: with this patch, InputDataConfig[0]: there is no instance "
            "group 'gpus' -> correct the patch"
        ],
    ),
    "channels of which one names groups": (
        reducers(
            2,
            inputs={"a": "s3://bucket/a/", "b": "s3://bucket/b/"},
            **sagemaker(
                overlay=[
                    {
                        "op": "remove",
                        "path": "/InputDataConfig/0/DataSource/S3DataSource/InstanceGroupNames",
                    }
                ]
            ),
        ),
        [
            f"error {OVERLAY}: with this patch, InputDataConfig: either all channels name "
            "instance groups, or none of them -> correct the patch"
        ],
    ),
    "a patch that does what the spec forgot": (
        {**sagemaker(role=None, overlay={"RoleArn": ROLE})},
        [],
    ),
}


@pytest.mark.parametrize("title", PATCHES)
def test_what_is_wrong_and_what_to_do(title: str, tmp_path: Path) -> None:
    changes, expected = PATCHES[title]
    assert sorted(reported(tmp_path, changes)) == sorted(expected)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["Key", "Value", "name", "value", "x"]), inner)
    ),
    max_leaves=6,
)
FIELDS = sorted(model().shapes["CreateTrainingJobRequest"].members)


BODY: dict[str, Any] = {
    "TrainingJobName": "a",
    "RoleArn": ROLE,
    "AlgorithmSpecification": {"TrainingImage": "i", "TrainingInputMode": "File"},
    "Environment": {"A": None},
    "OutputDataConfig": {"S3OutputPath": "s3://bucket/runs"},
    "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1},
    "Tags": [],
}


@settings(max_examples=200)
@given(patch=st.dictionaries(st.sampled_from(FIELDS), ANYTHING, max_size=3))
def test_no_patch_is_too_odd_for_a_finding(patch: dict[str, Any]) -> None:
    """Findings or a body that the model allows, never anything else."""
    patched = apply_overlay(BODY, patch, OVERLAY)
    findings = body_findings(BODY, patched, JOB, {"A": "x"})
    assert {finding.path for finding in findings} <= {OVERLAY}
    if not findings:
        env = {name: value or "x" for name, value in patched.get("Environment", {}).items()}
        assert list(problems({**patched, "Environment": env})) == []


def test_a_body_without_a_patch_is_right() -> None:
    assert body_findings(BODY, BODY, JOB, {"A": "x"}) == []
