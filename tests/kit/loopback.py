"""What keeps a test's clients of the clouds on this machine."""

from __future__ import annotations

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
