"""Remedies where a registry refuses: how to log in, the permission to request, the resource to
create.
"""

from __future__ import annotations

from dataclasses import dataclass

from rsctl.clients.errors import AWS_LOGIN, GOOGLE_LOGIN
from rsctl.images.registry.names import ImageRepository, Kind


@dataclass(frozen=True)
class Remedies:
    """Actions for a user of one repository, as sentences for a finding's remedy."""

    log_in: str
    ask_to_push: str
    ask_to_read: str
    create: str


def remedies_for(repository: ImageRepository) -> Remedies:
    """The remedy if this repository's registry denies access."""
    if repository.kind is Kind.GOOGLE:
        return _google(repository)
    if repository.kind is Kind.ECR:
        return _ecr(repository)
    if repository.kind is Kind.ECR_PUBLIC:
        return _ecr_public(repository)
    host = repository.host
    return Remedies(
        log_in=f"run `docker login {host}`",
        ask_to_push=f"ask for permission to push to {repository}, or log in as another user: "
        f"`docker login {host}`",
        ask_to_read=f"ask for permission to pull from {repository}: rsctl looks there for an "
        "existing image",
        create=f"create {repository.path} on {host}, or correct image.repository",
    )


def _google(repository: ImageRepository) -> Remedies:
    named = repository.google
    name = f"{named.name} in project {named.project}" if named else str(repository)
    return Remedies(
        log_in=GOOGLE_LOGIN,
        ask_to_push=f"ask for roles/artifactregistry.writer on repository {name}; check that it "
        "exists and that image.repository is spelled correctly",
        ask_to_read=f"ask for roles/artifactregistry.reader on repository {name}; check that it "
        "exists and that image.repository is spelled correctly",
        create=f"run `{_create_google(repository)}`, or correct image.repository",
    )


def _create_google(repository: ImageRepository) -> str:
    named = repository.google
    if named is None:
        return "gcloud artifacts repositories create gcr.io --repository-format=docker"
    return (
        f"gcloud artifacts repositories create {named.name} --project={named.project} "
        f"--location={named.location} --repository-format=docker"
    )


def _ecr(repository: ImageRepository) -> Remedies:
    return Remedies(
        log_in=AWS_LOGIN,
        ask_to_push=f"ask for the managed policy AmazonEC2ContainerRegistryPowerUser, or for "
        f"ecr:PutImage and the ecr:*Layer* actions on {repository.path}",
        ask_to_read=f"ask for ecr:DescribeImages, ecr:DescribeRepositories and "
        f"ecr:BatchGetImage on {repository.path}",
        create=f"run `{_create_ecr(repository)}`, or correct image.repository",
    )


def _create_ecr(repository: ImageRepository) -> str:
    ecr = repository.ecr
    region = f" --region {ecr.region}" if ecr else ""
    return f"aws ecr create-repository --repository-name {repository.path}{region}"


def _ecr_public(repository: ImageRepository) -> Remedies:
    name = repository.path.partition("/")[2] or repository.path
    return Remedies(
        log_in=AWS_LOGIN,
        ask_to_push="ask for the managed policy AmazonElasticContainerRegistryPublicPowerUser",
        ask_to_read="ask for the managed policy AmazonElasticContainerRegistryPublicReadOnly",
        create=f"run `aws ecr-public create-repository --repository-name {name} "
        "--region us-east-1`, or correct image.repository",
    )
