"""The contract of a cloud's registry: login, lookup and preparation of a repository."""

from __future__ import annotations

from typing import Protocol

from rsctl.clients.endpoints import Endpoints
from rsctl.images.registry.credentials import Login
from rsctl.images.registry.names import ImageRepository


class RegistryClient(Protocol):
    """The registry of a cloud, which `TargetInfo.registry` names. All methods raise RsctlError."""

    def log_in(self, repository: ImageRepository, endpoints: Endpoints) -> Login:
        """The user and password of the cloud's credentials."""

    def find_digest(
        self, repository: ImageRepository, tag: str, login: Login, endpoints: Endpoints
    ) -> str | None:
        """The digest of a tag if the registry has it, without pulling anything."""

    def ensure_repository(
        self, repository: ImageRepository, login: Login, endpoints: Endpoints
    ) -> None:
        """See that the repository exists, so that a push can succeed."""
