"""Target sagemaker: rules of regions, roles, images and tags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .case_parts import LAMBDA, no_launch
from .rendering import REGISTRY, reported, sagemaker


def pushed_to(repository: str) -> dict[str, Any]:
    """Changes to a job whose image is built."""
    return {"image": {"uri": None, "base": "python:3.12", "repository": repository}}


ACCOUNT = {
    "no region": (
        sagemaker(region=None),
        [
            "error targets.sagemaker.region: target sagemaker needs a region -> set it, such as "
            "us-east-1"
        ],
    ),
    "a region of another cloud": (
        sagemaker(region="us-central1"),
        [
            "error targets.sagemaker.region: 'us-central1' is not a valid AWS region -> write it "
            "in the form us-east-1"
        ],
    ),
    "a region misspelt": (
        {**sagemaker(region="us-esat-1"), "image": {"uri": "public.ecr.aws/a/b:1"}},
        [
            "warning targets.sagemaker.region: 'us-esat-1' is not a region that was known on "
            "2026-11-21 -> did you mean us-west-1 or us-east-1?"
        ],
    ),
    "no role": (
        sagemaker(role=None),
        [
            "error targets.sagemaker.role: SageMaker's RoleArn: it is missing -> set an ARN such "
            "as arn:aws:iam::123456789012:role/train"
        ],
    ),
    "a role's name": (
        sagemaker(role="my-training-role-of-us"),
        [
            "error targets.sagemaker.role: SageMaker's RoleArn: 'my-training-role-of-us' does "
            "not match "
            r"arn:aws[a-z\-]*:iam::\d{12}:role/?[a-zA-Z_0-9+=,.@\-_/]+ -> set an ARN such as "
            "arn:aws:iam::123456789012:role/train"
        ],
    ),
    "a role elsewhere": (
        {**sagemaker(region="cn-north-1"), "image": {"uri": "public.ecr.aws/a/b:1"}},
        [
            "error targets.sagemaker.role: the role is in partition aws, but cn-north-1 is in "
            "aws-cn -> use a role arn:aws-cn:iam::ACCOUNT:role/NAME, or another region"
        ],
    ),
    "a role of another partition in a region of its own": (
        {**sagemaker(region="eu-isoe-west-1"), "image": {"uri": "public.ecr.aws/a/b:1"}},
        [
            "error targets.sagemaker.role: the role is in partition aws, but eu-isoe-west-1 is in "
            "aws-iso-e -> use a role arn:aws-iso-e:iam::ACCOUNT:role/NAME, or another region"
        ],
    ),
    "an image of Docker Hub": (
        {"image": {"uri": "pytorch/pytorch:2.8.0"}},
        [
            "error image.uri: SageMaker pulls images from ECR and public.ecr.aws, not from "
            "docker.io -> use ACCOUNT.dkr.ecr.REGION.amazonaws.com/NAME; for a private registry "
            "in your VPC, set targets.sagemaker.registry_access: Vpc",
            no_launch("pytorch/pytorch:2.8.0"),
        ],
    ),
    "an image without a repository": (
        {"image": {"uri": None, "base": "pytorch/pytorch:2.8.0"}},
        [
            "error image.repository: SageMaker pulls the image from ECR, so it must be pushed "
            "there -> set it to ACCOUNT.dkr.ecr.REGION.amazonaws.com/NAME"
        ],
    ),
    "an image of another region": (
        sagemaker(region="eu-west-1"),
        [
            "warning image.uri: the image is in us-east-1, but the job is in eu-west-1 -> copy "
            "it to eu-west-1 too, unless you know that SageMaker pulls it from there"
        ],
    ),
    "a login to a registry that is not private": (
        sagemaker(registry_access="Platform", registry_credentials=LAMBDA),
        [
            "error targets.sagemaker.registry_credentials: registry_credentials require a private "
            "registry, but registry_access is Platform -> set registry_access: Vpc, or remove it"
        ],
    ),
    "the longest name of an image": (pushed_to(f"{REGISTRY}/{'x' * (182 - len(REGISTRY))}"), []),
    "a name of an image that is too long with its digest": (
        pushed_to(f"{REGISTRY}/{'x' * (183 - len(REGISTRY))}"),
        [
            "error image.repository: the image's name has 256 characters with its digest -> use a "
            "name of at most 255 characters"
        ],
    ),
    "a private registry without a VPC": (
        {"image": {"uri": "registry.corp/job:1"}, **sagemaker(registry_access="Vpc")},
        [
            "error targets.sagemaker.registry_access: SageMaker's "
            "AlgorithmSpecification.TrainingImageConfig: a private registry requires subnets and "
            "security_groups of a VPC -> set targets.sagemaker.subnets and security_groups"
        ],
    ),
    "subnets without security groups": (
        sagemaker(subnets=["subnet-1"]),
        [
            "error targets.sagemaker.security_groups: SageMaker's VpcConfig.SecurityGroupIds: it "
            "is missing -> set subnets and security_groups together"
        ],
    ),
    "too many tags": (
        sagemaker(tags={f"t{n}": "" for n in range(49)}),
        [
            "error targets.sagemaker.tags: SageMaker's Tags: it has 51 items, but SageMaker "
            "allows at most 50 -> correct it"
        ],
    ),
    "tags of rsctl's": (
        sagemaker(tags={"rsctl:run": "mine", "rsctl:job": "mine", "Rsctl:run": "x"}),
        [
            "error targets.sagemaker.tags.rsctl:run: rsctl sets rsctl:run itself -> use another "
            "key",
            "error targets.sagemaker.tags.rsctl:job: rsctl sets rsctl:job itself -> use another "
            "key",
        ],
    ),
    "a tag of AWS's": (
        sagemaker(tags={"aws:mine": "x"}),
        [
            "error targets.sagemaker.tags.aws:mine: SageMaker's Tags[0]: names that start with "
            "aws: are reserved for AWS -> use another name"
        ],
    ),
}


@pytest.mark.parametrize("title", ACCOUNT)
def test_what_is_wrong_and_what_to_do(title: str, tmp_path: Path) -> None:
    changes, expected = ACCOUNT[title]
    assert sorted(reported(tmp_path, changes)) == sorted(expected)
