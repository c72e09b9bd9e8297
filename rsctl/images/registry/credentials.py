"""A registry's user and password or token, kept in memory only."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field

IDENTITY_TOKEN = "<token>"  # noqa: S105 - a user's name
"""The user's name by which credential helpers mark a secret that is a refresh token."""


@dataclass(frozen=True)
class Login:
    """A user and a secret for one host; the secret is not in its `repr`."""

    host: str
    user: str
    secret: str = field(repr=False)

    def hide(self, text: str) -> str:
        """The text without the secret, should another program have repeated it."""
        for secret in (self.secret, json.dumps(self.secret)[1:-1], self.basic):
            text = text.replace(secret, "***")
        return text

    @property
    def basic(self) -> str:
        """User and secret as HTTP's basic authentication writes them."""
        return base64.b64encode(f"{self.user}:{self.secret}".encode()).decode()
