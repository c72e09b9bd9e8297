"""Common parts of Google's emulated services: credentials, the token service, errors."""

from __future__ import annotations

import json
import secrets
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from rsctl.targets.managed.emulator.http import Emulator, Refused, Reply, Request, route
from rsctl.targets.vertex.emulator.query_parameters import NotEmulatedHere, checked

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

_TOKEN_SECONDS = 3600
_SERVICES = {
    "/customJobs": "aiplatform",
    "/metadataStores": "aiplatform",
    "/v2/entries": "logging",
    "/timeSeries": "monitoring",
    "/storage/": "storage",
}


def new_key() -> RSAPrivateKey:
    """The key of a service account."""
    from cryptography.hazmat.primitives.asymmetric import rsa

    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


class GoogleAccess:
    """A service account and the access tokens that its key has obtained."""

    def __init__(self, project: str) -> None:
        self.email = f"emulator@{project}.iam.gserviceaccount.com"
        self._project = project
        self._key = new_key()
        self._tokens: dict[str, float] = {}
        self._signed: set[str] = set()
        self._expired: set[str] = set()
        self.is_revoked = False
        """Whether the account is good for calls of control only, and gets no token any longer."""

    def write_key(self, file: Path, token_uri: str) -> None:
        """Write the key file that google-auth reads, for its owner only."""
        from cryptography.hazmat.primitives import serialization

        pem = self._key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        content = {
            "type": "service_account",
            "project_id": self._project,
            "private_key_id": "emulator",
            "private_key": pem.decode(),
            "client_email": self.email,
            "client_id": "1",
            "token_uri": token_uri,
        }
        file.touch(mode=0o600)
        file.write_text(json.dumps(content), encoding="utf-8")

    def grant(self, request: Request) -> Reply:
        """The token service: an access token for a signed assertion (RFC 7523)."""
        assertion = parse_qs(request.body.decode(errors="replace")).get("assertion", [""])[0]
        try:
            claims = self._claims(assertion)
        except ValueError as problem:
            body = {"error": "invalid_grant", "error_description": f"Invalid JWT: {problem}"}
            return Reply.of(body, 400)
        if self.is_revoked:
            body = {
                "error": "invalid_grant",
                "error_description": "Token has been expired or revoked.",
            }
            return Reply.of(body, 400)
        if claims.get("iss") != self.email:
            return Reply.of({"error": "invalid_grant", "error_description": "unknown account"}, 400)
        token = secrets.token_urlsafe(32)
        self._tokens[token] = time.monotonic() + _TOKEN_SECONDS
        return Reply.of(
            {"access_token": token, "expires_in": _TOKEN_SECONDS, "token_type": "Bearer"}
        )

    def knows(self, authorization: str) -> bool:
        """Whether this header has a token that is still good.

        Google's client libraries sign one themselves rather than obtain it (self-signed JWT).
        """
        kind, _, token = authorization.partition(" ")
        if kind != "Bearer":
            return False
        return self._tokens.get(token, 0.0) > time.monotonic() or self._has_signed(token)

    def expire(self) -> None:
        """Make all tokens that were given or used so far expire now.

        One that a client has signed is refused once: what it signs in the same second is the same.
        """
        self._tokens.clear()
        self._expired |= self._signed

    def _has_signed(self, token: str) -> bool:
        if token in self._expired:
            self._expired.discard(token)
            return False
        if token.count(".") != 2:
            return False
        try:
            is_own = bool(self._claims(token).get("iss") == self.email)
        except ValueError:
            return False
        if is_own:
            self._signed.add(token)
        return is_own

    def _claims(self, token: str) -> Any:
        """The claims of a valid JWT that our key has signed. Raises ValueError."""
        from cryptography.hazmat.primitives import serialization
        from google.auth import jwt

        public = self._key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return jwt.decode(token, certs=public)  # type: ignore[no-untyped-call]


class GoogleEmulator(Emulator):
    """Base of an emulator of Google's services: `access` opens it."""

    number = "123456789012"
    """The service's name of the project in resource names."""

    def __init__(self, project: str) -> None:
        super().__init__()
        self.project = project
        self.access = GoogleAccess(project)
        self.exceeded: Counter[str] = Counter()
        """How many requests were too many, by the metric of the quota."""
        self.routes.append(route("oauth2.token", "POST", "/token", self.access.grant, is_open=True))

    def authorize(self, request: Request) -> None:
        """Raise Refused without a good access token."""
        is_revoked = self.access.is_revoked and not request.path.startswith("/emulator/")
        if is_revoked or not self.access.knows(request.headers.get("authorization", "")):
            message = "Request had invalid authentication credentials."
            raise Refused(self.error(401, "UNAUTHENTICATED", message))

    def answer(self, request: Request) -> Reply:
        """See Emulator; a parameter that a call does not have is refused before."""
        found, _ = self.find(request)
        try:
            request = checked(found.name if found else "", request)
        except NotEmulatedHere as problem:
            return self.error(501, "UNIMPLEMENTED", str(problem))
        except ValueError as problem:
            return self.error(400, "INVALID_ARGUMENT", str(problem))
        return super().answer(request)

    def invalid(self, message: str) -> Refused:
        """The error for a request that is not valid, to raise."""
        return self.refuse(400, "INVALID_ARGUMENT", message)

    def json_object(self, request: Request) -> dict[str, Any]:
        """The body of a request. Raises Refused if it is not a JSON object."""
        try:
            body = request.json()
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise self.invalid("Invalid JSON payload received.")
        return body

    def error(
        self, status: int, code: str, message: str, details: list[Any] | None = None
    ) -> Reply:
        """google.rpc.Status as JSON."""
        body: dict[str, Any] = {"code": status, "message": message, "status": code}
        if details:
            body["details"] = details
        return Reply.of({"error": body}, status)

    def exceed(self, service: str, metric: str, limit: str) -> Refused:
        """The 429 for a request too many, to raise. No Retry-After."""
        self.exceeded[metric] += 1
        message = (
            f"Quota exceeded for quota metric '{metric}' and limit '{metric} per minute' of "
            f"service '{service}' for consumer 'project_number:{self.number}'."
        )
        about = {"service": service, "consumer": f"projects/{self.number}", "quota_limit": limit}
        detail = _error_info("RATE_LIMIT_EXCEEDED", about)
        return Refused(self.error(429, "RESOURCE_EXHAUSTED", message, [detail]))

    def unknown(self, request: Request) -> Reply:
        """Calls of the service that are not emulated, and those that it does not have either."""
        message = f"{request.method} {request.path} is not emulated by rsctl's emulator"
        return self.error(501, "UNIMPLEMENTED", message)

    def error_for(self, request: Request, status: int, code: str, message: str) -> Reply:
        """The same, with the details that Google adds for the service that this request is for."""
        if code != "SERVICE_DISABLED":
            return self.error(status, code, message)
        details = [_disabled(self.project, _service(request.path))]
        return self.error(status, "PERMISSION_DENIED", message, details)


def _service(path: str) -> str:
    """The name of the service that answers at a path."""
    for part, service in _SERVICES.items():
        if part in path:
            return f"{service}.googleapis.com"
    return "cloudbuild.googleapis.com"


def _disabled(project: str, service: str) -> dict[str, Any]:
    console = "https://console.developers.google.com/apis/api"
    about = {
        "service": service,
        "consumer": f"projects/{project}",
        "activationUrl": f"{console}/{service}/overview?project={project}",
    }
    return _error_info("SERVICE_DISABLED", about)


def _error_info(reason: str, about: dict[str, str]) -> dict[str, Any]:
    """A google.rpc.ErrorInfo."""
    return {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": reason,
        "domain": "googleapis.com",
        "metadata": about,
    }
