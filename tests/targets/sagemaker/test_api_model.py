"""Every request of the table against AWS's own model, and rsctl's copy of that model against it."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rsctl.targets.sagemaker import api_model, api_model_update
from rsctl.targets.sagemaker.api_model import Problem, problems
from rsctl.targets.sagemaker.emulator import aws_models as aws_models

from .cases import CASES, Case
from .rendering import ROLE, render

TOP = Path(__file__).parents[3]
OLDEST = TOP / "tests" / "fixtures" / "real" / "sagemaker_oldest_model.json"
NEWER = (
    'Unknown parameter in ResourceConfig: "InstancePreferences"',
    "Invalid value for parameter StoppingCondition.MaxPendingTimeInSeconds",
)
"""What the oldest botocore does not send yet: the error of such a job names the remedy."""
SECRETS = {"TOKEN": "s3cret", "RSCTL_TOKEN": "0" * 64}


@cache
def oldest() -> dict[str, Any]:
    """The model of the oldest botocore that pyproject.toml allows."""
    found: dict[str, Any] = json.loads(OLDEST.read_text())
    return found


def the_call() -> Any:
    return aws_models.service_model("sagemaker").operation_model("CreateTrainingJob")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_a_request_is_what_the_model_allows(case: Case, tmp_path: Path) -> None:
    from botocore.model import ShapeResolver
    from botocore.validate import ParamValidator

    plan = render(tmp_path, case.spec)
    body = plan["request"]["body"]
    given = body.get("Environment", {})
    body = {**body, "Environment": {n: SECRETS[n] if v is None else v for n, v in given.items()}}
    shape = the_call().input_shape
    assert plan["request"]["operation"] == the_call().name
    assert ParamValidator().validate(body, shape).generate_report() == ""
    assert list(aws_models.problems(body, shape)) == []
    former = ShapeResolver(oldest()["shapes"]).get_shape_by_name(shape.name)
    report = ParamValidator().validate(body, former).generate_report()
    assert [line for line in report.splitlines() if not line.startswith(NEWER)] == []


def test_the_oldest_botocore_is_the_one_that_pyproject_allows() -> None:
    (needed,) = re.findall(r'"boto3>=([\d.]+)"', (TOP / "pyproject.toml").read_text())
    assert oldest()["botocore"] == needed


def test_the_copy_of_the_model_is_that_of_the_installed_botocore() -> None:
    """If this fails, botocore is another: `python -m rsctl.targets.sagemaker.api_model_update`."""
    assert api_model.FILE.read_text() == api_model_update.as_text(api_model_update.from_botocore())


LEAST = {
    "TrainingJobName": "a",
    "RoleArn": ROLE,
    "OutputDataConfig": {"S3OutputPath": "s3://bucket/runs"},
}
LISTED = "ml.m4.xlarge, ml.m4.2xlarge, ml.m4.4xlarge, ml.m4.10xlarge, ml.m4.16xlarge, "
LISTED += "ml.g4dn.xlarge, ml.g4dn.2xlarge, ml.g4dn.4xlarge and 217 more"


@pytest.mark.parametrize(
    ("fields", "path", "kind", "text"),
    [
        ({"RoleArn": None}, ("RoleArn",), "type", "None is not text"),
        (
            {"TrainingJobName": "a_b"},
            ("TrainingJobName",),
            "pattern",
            "'a_b' does not match [a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}",
        ),
        (
            {"TrainingJobName": "a" * 64},
            ("TrainingJobName",),
            "size",
            "it has 64 characters, but SageMaker allows at most 63",
        ),
        (
            {"Environment": {"A": "b" * 513}},
            ("Environment", "A"),
            "size",
            "it has 513 characters, but SageMaker allows at most 512",
        ),
        (
            {"Environment": {"1A": "b"}},
            ("Environment", "1A"),
            "pattern",
            "'1A' does not match [a-zA-Z_][a-zA-Z0-9_]*",
        ),
        (
            {"Environment": {f"A{n}": "" for n in range(101)}},
            ("Environment",),
            "size",
            "it has 101 entries, but SageMaker allows at most 100",
        ),
        (
            {"RetryStrategy": {"MaximumRetryAttempts": 31}},
            ("RetryStrategy", "MaximumRetryAttempts"),
            "range",
            "it is 31, but SageMaker allows at most 30",
        ),
        (
            {"RetryStrategy": {"MaximumRetryAttempts": True}},
            ("RetryStrategy", "MaximumRetryAttempts"),
            "type",
            "True is not a whole number",
        ),
        (
            {"ResourceConfig": {"InstanceType": "ml.c6in.32xlarge"}},
            ("ResourceConfig", "InstanceType"),
            "enum",
            f"'ml.c6in.32xlarge' is not one of {LISTED}",
        ),
        (
            {"Tags": [{"Key": "a", "Value": "b\nc"}]},
            ("Tags", 0, "Value"),
            "pattern",
            r"'b\nc' does not match ([\p{L}\p{Z}\p{N}_.:/=+\-@]*)",
        ),
        ({"Tags": [{"Key": "a"}]}, ("Tags", 0, "Value"), "missing", "it is missing"),
        (
            {"HyperParameters": {"a": "b\r"}},
            ("HyperParameters", "a"),
            "pattern",
            r"'b\r' is not one line",
        ),
        (
            {"VpcConfig": {"Subnets": [], "SecurityGroupIds": ["sg-1"]}},
            ("VpcConfig", "Subnets"),
            "size",
            "it has 0 items, but SageMaker requires at least 1",
        ),
        (
            {"Foo": {}},
            ("Foo",),
            "unknown",
            f"SageMaker has no such field (according to botocore {api_model.model().botocore})",
        ),
        ({"Tags": {}}, ("Tags",), "type", "{} is not a list"),
    ],
)
def test_what_the_model_does_not_allow(
    fields: dict[str, Any], path: tuple[str | int, ...], kind: str, text: str
) -> None:
    assert list(problems({**LEAST, **fields})) == [Problem(path, kind, text)]


def test_a_long_value_is_shown_by_its_beginning() -> None:
    (problem,) = problems({**LEAST, "HyperParameters": {"a": "\n" + "b" * 2000}})
    assert problem.text == "'\\n" + "b" * 77 + "… is not one line"


@pytest.mark.parametrize("value", ["ä ö", "a b", "東京", "a/b=c+d@e", "½", ""])
def test_what_a_tag_may_have(value: str) -> None:
    assert list(problems({**LEAST, "Tags": [{"Key": "a", "Value": value}]})) == []


@pytest.mark.parametrize("value", ["a\tb", "a!", "a\x00"])
def test_what_a_tag_may_not_have(value: str) -> None:
    found = [
        problem.kind for problem in problems({**LEAST, "Tags": [{"Key": "a", "Value": value}]})
    ]
    assert found == ["pattern"]
