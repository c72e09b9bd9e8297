"""What keeps a test's clients of the clouds on this machine."""

from __future__ import annotations

import socket

import pytest
from google.oauth2 import service_account


def keep_google_auth_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would ask a service outside for the locations that a service account may call."""
    monkeypatch.setattr(
        service_account.Credentials,
        "_is_regional_access_boundary_lookup_required",
        lambda self: False,
        raising=False,
    )


def free_port() -> int:
    """A port of this machine that no program uses now."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])
