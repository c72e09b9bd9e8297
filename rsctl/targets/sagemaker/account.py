"""Checks of a job's region, its role, and the registry of its image. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rsctl.estimate.catalog.regions import unknown_region
from rsctl.findings import Finding, RsctlError, error, warning
from rsctl.images.recipe import repository_of
from rsctl.images.registry.names import ImageRepository, Kind, parse_repository
from rsctl.job.job import Job, PerTarget
from rsctl.targets.sagemaker.options import sagemaker_options

_OPTIONS = "targets.sagemaker"
_REGION = re.compile(r"[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}")
_PARTITIONS = {
    "cn-": "aws-cn",
    "us-gov-": "aws-us-gov",
    "us-iso-": "aws-iso",
    "us-isob-": "aws-iso-b",
    "eu-isoe-": "aws-iso-e",
    "us-isof-": "aws-iso-f",
    "eusc-": "aws-eusc",
}
_LONGEST_IMAGE = 255
_DIGEST = len("@sha256:") + 64


def account_findings(job: Job) -> Iterator[Finding]:
    """Check that region, role and image belong together."""
    options = sagemaker_options(job)
    if options.first_region is None:
        remedy = "set it, such as us-east-1"
        yield error("region", "target sagemaker needs a region", remedy, f"{_OPTIONS}.region")
    elif not _REGION.fullmatch(options.first_region):
        message = f"{options.first_region!r} is not a valid AWS region"
        yield error("region", message, "write it in the form us-east-1", f"{_OPTIONS}.region")
    elif unknown := unknown_region("sagemaker", options.first_region):
        yield unknown
    elif options.role and options.role.startswith("arn:"):
        yield from _role_findings(options.role, options.first_region)
    if options.registry_access == "Platform":
        yield from _image_findings(job)


def _role_findings(role: str, region: str) -> Iterator[Finding]:
    expected = next(
        (name for start, name in _PARTITIONS.items() if region.startswith(start)), "aws"
    )
    partition = role.split(":")[1]
    if partition != expected:
        yield error(
            "role",
            f"the role is in partition {partition}, but {region} is in {expected}",
            f"use a role arn:{expected}:iam::ACCOUNT:role/NAME, or another region",
            f"{_OPTIONS}.role",
        )


def _image_findings(job: Job) -> Iterator[Finding]:
    """SageMaker pulls from ECR and ECR Public only, unless a private registry is set up."""
    path = "image.uri" if job.image.uri else "image.repository"
    if isinstance(job.image.repository, PerTarget):
        path += ".sagemaker"
    try:
        repository = _repository(job)
    except RsctlError as problem:
        yield from problem.findings
        return
    if repository is None:
        if job.image.is_built:
            message = "SageMaker pulls the image from ECR, so it must be pushed there"
            remedy = "set it to ACCOUNT.dkr.ecr.REGION.amazonaws.com/NAME"
            yield error("image", message, remedy, "image.repository")
    elif repository.kind not in (Kind.ECR, Kind.ECR_PUBLIC):
        yield error(
            "image",
            f"SageMaker pulls images from ECR and public.ecr.aws, not from {repository.host}",
            "use ACCOUNT.dkr.ecr.REGION.amazonaws.com/NAME; for a private registry in your VPC, "
            f"set {_OPTIONS}.registry_access: Vpc",
            path,
        )
    else:
        yield from _reach_findings(job, repository, path)


def _reach_findings(job: Job, repository: ImageRepository, path: str) -> Iterator[Finding]:
    region = sagemaker_options(job).first_region
    is_known = region is not None and _REGION.fullmatch(region)
    if repository.ecr and is_known and repository.ecr.region != region:
        yield warning(
            "image",
            f"the image is in {repository.ecr.region}, but the job is in {region}",
            f"copy it to {region} too, unless you know that SageMaker pulls it from there",
            path,
        )
    length = len(str(repository)) + _DIGEST
    if not job.image.uri and length > _LONGEST_IMAGE:
        message = f"the image's name has {length} characters with its digest"
        yield error("image", message, f"use a name of at most {_LONGEST_IMAGE} characters", path)


def _repository(job: Job) -> ImageRepository | None:
    """The registry of the image. Raises RsctlError if it is not a valid repository."""
    if job.image.uri:
        return uri_repository(job.image.uri)
    name = repository_of(job, "sagemaker")
    return parse_repository(name) if name else None


def uri_repository(uri: str) -> ImageRepository:
    """The repository of an image's name, without its tag and digest. Raises RsctlError."""
    name = uri.partition("@")[0]
    head, colon, tag = name.rpartition(":")
    return parse_repository(head if colon and "/" not in tag else name)
