"""What each kind of registry asks of a user: how to log in, and which permission to have."""

from __future__ import annotations

from dataclasses import dataclass

from rsctl.clients.logins import AWS_LOGIN, GOOGLE_LOGIN
from rsctl.image.registry.names import Kind, Repository


@dataclass(frozen=True)
class Access:
    """Remedies, ready to be shown."""

    log_in: str
    ask_to_push: str
    ask_to_read: str
    create: str


def access_to(repository: Repository) -> Access:
    """What to do when this repository's registry does not let us in."""
    if repository.kind is Kind.GOOGLE:
        return _google(repository)
    if repository.kind is Kind.ECR:
        return _ecr(repository)
    if repository.kind is Kind.ECR_PUBLIC:
        return _ecr_public(repository)
    host = repository.host
    return Access(
        log_in=f"run `docker login {host}`",
        ask_to_push=f"ask for the right to push to {repository}, or log in as another user: "
        f"`docker login {host}`",
        ask_to_read=f"ask for the right to pull from {repository}: rsctl looks there for an image "
        "that need not be built again",
        create=f"create {repository.path} on {host}, or correct image.repository",
    )


def _google(repository: Repository) -> Access:
    place = repository.google
    where = f"{place.name} in project {place.project}" if place else str(repository)
    return Access(
        log_in=GOOGLE_LOGIN,
        ask_to_push=f"ask for roles/artifactregistry.writer on repository {where}; check that "
        "it exists and that image.repository is spelt as it is",
        ask_to_read=f"ask for roles/artifactregistry.reader on repository {where}; check that "
        "it exists and that image.repository is spelt as it is",
        create=f"run `{_create_google(repository)}`, or correct image.repository",
    )


def _create_google(repository: Repository) -> str:
    place = repository.google
    if place is None:
        return "gcloud artifacts repositories create gcr.io --repository-format=docker"
    return (
        f"gcloud artifacts repositories create {place.name} --project={place.project} "
        f"--location={place.location} --repository-format=docker"
    )


def _ecr(repository: Repository) -> Access:
    return Access(
        log_in=AWS_LOGIN,
        ask_to_push=f"ask for the managed policy AmazonEC2ContainerRegistryPowerUser, or for "
        f"ecr:PutImage and the ecr:*Layer* actions on {repository.path}",
        ask_to_read=f"ask for ecr:DescribeImages, ecr:DescribeRepositories and "
        f"ecr:BatchGetImage on {repository.path}",
        create=f"run `{_create_ecr(repository)}`, or correct image.repository",
    )


def _create_ecr(repository: Repository) -> str:
    place = repository.ecr
    region = f" --region {place.region}" if place else ""
    return f"aws ecr create-repository --repository-name {repository.path}{region}"


def _ecr_public(repository: Repository) -> Access:
    name = repository.path.partition("/")[2] or repository.path
    return Access(
        log_in=AWS_LOGIN,
        ask_to_push="ask for the managed policy AmazonElasticContainerRegistryPublicPowerUser",
        ask_to_read="ask for the managed policy AmazonElasticContainerRegistryPublicReadOnly",
        create=f"run `aws ecr-public create-repository --repository-name {name} "
        "--region us-east-1`, or correct image.repository",
    )
