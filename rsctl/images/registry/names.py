"""Names of images and repositories, parsed: host, path, tag, and whose registry it is."""

from __future__ import annotations

import re
from enum import Enum

import msgspec

from rsctl.clients.private import is_loopback
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.images.registry.hosts import ARTIFACT_REGISTRY, ECR, ECR_PUBLIC, GCR

DOCKER_HUB = "docker.io"
_OLD_DOCKER_HUB = "index.docker.io"
FIELD = "image.repository"

# Compiled where they are used: at import it would cost every plan 2 ms.
_LABEL = "[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_HOST = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9a-fA-F:]+\])(?::[0-9]{{1,5}})?"
_COMPONENT = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_PATH = f"{_COMPONENT}(?:/{_COMPONENT})*"
_TAG = "[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}"
_LONGEST = 255


class Kind(Enum):
    """Who runs a registry, which decides how to log in."""

    ECR = "Amazon ECR"
    ECR_PUBLIC = "Amazon ECR Public"
    GOOGLE = "Google Artifact Registry"
    OTHER = "the registry"


class Ecr(msgspec.Struct, frozen=True):
    """The private registry of one AWS account in one region."""

    account: str
    region: str
    is_fips: bool


class GoogleRepository(msgspec.Struct, frozen=True):
    """A repository of Artifact Registry; it holds images by further names."""

    project: str
    location: str
    name: str


class ImageRepository(msgspec.Struct, frozen=True):
    """The host of a registry, with its port if it has one, and the path of one image there."""

    host: str
    path: str

    def __str__(self) -> str:
        return f"{self.host}/{self.path}"

    @property
    def is_loopback(self) -> bool:
        """Whether the registry is on this machine, where docker too speaks plain HTTP."""
        return is_loopback(re.sub(r":[0-9]+$", "", self.host))

    @property
    def kind(self) -> Kind:
        """Whose registry it is, by its host."""
        if re.fullmatch(ECR, self.host):
            return Kind.ECR
        if re.fullmatch(ECR_PUBLIC, self.host):
            return Kind.ECR_PUBLIC
        if re.fullmatch(ARTIFACT_REGISTRY, self.host) or re.fullmatch(GCR, self.host):
            return Kind.GOOGLE
        return Kind.OTHER

    @property
    def ecr(self) -> Ecr | None:
        """The account and the region, for a private repository of Amazon ECR."""
        found = re.fullmatch(ECR, self.host)
        return Ecr(found["account"], found["region"], bool(found["fips"])) if found else None

    @property
    def google(self) -> GoogleRepository | None:
        """The resource that must exist before a push to Artifact Registry; gcr.io creates its
        own.
        """
        found = re.fullmatch(ARTIFACT_REGISTRY, self.host)
        if found is None:
            return None
        first, second, *rest = self.path.split("/")
        # The project example.com:name of an organisation's domain is written example.com/name.
        project, name = (f"{first}:{second}", rest[0]) if "." in first else (first, second)
        return GoogleRepository(project, found["location"], name)


def parse_repository(text: str) -> ImageRepository:
    """Read `HOST/PATH` by docker's rules: a first part that does not look like a host means Docker
    Hub.

    Raises RsctlError (usage) that names the error.
    """
    first, slash, rest = text.partition("/")
    has_host = bool(slash) and (any(c in first for c in ".:") or first == "localhost")
    host, path = (first, rest) if has_host else (DOCKER_HUB, text)
    if host == _OLD_DOCKER_HUB:
        host = DOCKER_HUB
    if not re.fullmatch(_HOST, host):
        raise _invalid(text, f"{host!r} is not a valid name of a registry")
    if len(text) > _LONGEST or not re.fullmatch(_PATH, path):
        raise _invalid(
            text,
            "a path consists of lower-case letters, digits and single . _ - between "
            "them, without a tag",
        )
    repository = ImageRepository(host.lower(), path)
    _check_google(repository)
    return repository


def parse_reference(reference: str) -> tuple[ImageRepository, str]:
    """Read `HOST/PATH:TAG` into the repository and the tag. Raises RsctlError (usage)."""
    name, _, tag = reference.rpartition(":")
    if not name or not re.fullmatch(_TAG, tag):
        raise _invalid(reference, "expected REPOSITORY:TAG")
    return parse_repository(name), tag


def at_digest(reference: str, digest: str) -> str:
    """`REPOSITORY@sha256:...`, which is submitted: it can mean only one image."""
    return f"{reference.rpartition(':')[0]}@{digest}"


def _check_google(repository: ImageRepository) -> None:
    found = re.fullmatch(ARTIFACT_REGISTRY, repository.host)
    needed = 4 if "." in repository.path.partition("/")[0] else 3
    if found and len(repository.path.split("/")) < needed:
        raise _invalid(
            str(repository),
            "Artifact Registry's names have the form "
            "LOCATION-docker.pkg.dev/PROJECT/REPOSITORY/IMAGE",
        )


def _invalid(text: str, why: str) -> RsctlError:
    finding = error("repository", f"{text!r} is not a valid repository: {why}", "correct it", FIELD)
    return RsctlError(ExitCode.USAGE, finding)
