"""Known errors of pushes: patterns of docker's and podman's output, each with its remedy."""

from __future__ import annotations

import re
from dataclasses import asdict

from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.images.known_errors import HELPER, NO_ENGINE
from rsctl.images.registry.credentials import Login
from rsctl.images.registry.names import FIELD, ImageRepository
from rsctl.images.registry.remedies import remedies_for
from rsctl.known_errors import KnownError, find_known_error

TAG_IMMUTABLE = "tag-immutable"
"""The code of a finding that the tag already exists and cannot be changed."""


class PushError(RsctlError):
    """A push failed; after a transient error another attempt may succeed."""

    def __init__(self, exit_code: ExitCode, finding: Finding, is_transient: bool) -> None:
        super().__init__(exit_code, finding)
        self.code = finding.code
        self.is_transient = is_transient


def _known(
    code: str,
    pattern: str,
    summary: str,
    remedy: str,
    exit_code: ExitCode = ExitCode.REFUSED,
    is_transient: bool = False,
) -> KnownError:
    """In the remedy, `{host}` is the registry; the other names are fields of `Remedies`."""
    return KnownError(
        code,
        remedy,
        FIELD,
        exit_code,
        pattern=re.compile(pattern, re.IGNORECASE),
        summary=summary,
        is_transient=is_transient,
    )


_LOGIN_REFUSED = _known(
    "login-refused",
    r"unauthorized(?!: access to the requested|: unauthorized to| to access)"
    r"|incorrect username or password|invalid username/password|failed auth",
    "the registry does not accept the credentials",
    "{log_in}",
)
# The first that matches counts, so the more exact ones come first. The patterns match messages of
# docker, of podman and the registries' error codes (OCI distribution: NAME_UNKNOWN, DENIED, ...).
KNOWN_ERRORS = (
    NO_ENGINE,
    _known("credential-helper", *HELPER, ExitCode.ENVIRONMENT),
    _known(
        "image-missing",
        r"image does not exist locally|no such image|image not known",
        "the engine has no such image",
        "build it first, with the same engine that pushes it",
        ExitCode.ENVIRONMENT,
    ),
    _known(
        TAG_IMMUTABLE,
        r"immutab|cannot be overwritten|tag invalid",
        "the registry already has a different image with this tag, and its tags cannot be changed",
        ("run the command again: it uses the existing image, which was built from the same files"),
    ),
    _known(
        "registry-busy",
        r"toomanyrequests|too many requests|statuscode: 429|status: 429",
        "the registry received too many requests",
        "try again later",
        ExitCode.ENVIRONMENT,
        is_transient=True,
    ),
    _known(
        "quota",
        r"quota|storage limit|limit ?exceeded|insufficient storage|configured upper limit",
        "the registry has no storage left",
        "delete unused images from {host}, or ask for more storage",
    ),
    _known(
        "layer-size",
        r"413 request entity too large|status ?code: 413|http 413 response",
        "a server in front of the registry does not accept a layer of this size",
        "ask for a larger limit on requests to {host}, such as client_max_body_size of nginx",
    ),
    _known(
        "repository-missing",
        r"name unknown|name_unknown|repository \S+ not found|repository with name .* not exist",
        "the repository does not exist in the registry",
        "{create}",
    ),
    _known(
        "repository",
        r"name invalid|name_invalid|invalid reference format|missing image name"
        r"|invalid repository name|repository name must",
        "the registry does not accept the repository's name",
        "correct image.repository",
        ExitCode.USAGE,
    ),
    _known(
        "login-missing",
        r"no basic auth credentials|authentication required|unauthenticated|not authenticated"
        r"|no credentials|anonymous token",
        "the registry requires credentials, and accepts none of those that it received",
        "{log_in}",
        ExitCode.ENVIRONMENT,
    ),
    _known(
        "credentials-expired",
        r"token has expired|token is expired|expired token",
        "the credentials have expired",
        "{log_in}",
        ExitCode.ENVIRONMENT,
    ),
    _LOGIN_REFUSED,
    _known(
        "denied",
        r"denied|forbidden|status: 403|insufficient_scope|not authorized|unauthorized to access",
        "no permission",
        "{ask_to_push}",
    ),
    _known(
        "certificate",
        r"x509|certificate",
        "the engine does not trust the registry's certificate",
        (
            "put the certificate of the authority that signed it into "
            "/etc/docker/certs.d/{host}/ca.crt on the engine's machine"
        ),
        ExitCode.ENVIRONMENT,
    ),
    _known(
        "registry-plain",
        r"http response to https client",
        "the registry does not support TLS",
        ('give it a certificate, or add {host} to "insecure-registries" of the Docker engine'),
        ExitCode.ENVIRONMENT,
    ),
    _known(
        "registry-unreachable",
        r"connection refused|no such host|no route to host|network is unreachable",
        "the engine cannot reach the registry",
        ("check that {host} is right, that it runs, and the engine's network and proxy"),
        ExitCode.ENVIRONMENT,
    ),
    _known(
        "registry-unstable",
        r"status:? 5\d\d|statuscode: 5\d\d|\b50[0234] |\beof\b|connection reset|broken pipe"
        r"|timeout|timed out|deadline exceeded|temporary failure|server misbehaving"
        r"|closed network connection|http2: |blob upload (?:unknown|invalid)|unexpected eof",
        "the registry closed the connection repeatedly",
        "try again later; check the network to {host} and its proxies",
        ExitCode.ENVIRONMENT,
        is_transient=True,
    ),
)
_UNKNOWN = _known(
    "push",
    "",
    "the push failed",
    "try `docker push` by hand; check {host}",
    ExitCode.ENVIRONMENT,
)


def push_error(
    lines: list[str], reference: str, repository: ImageRepository, login: Login | None
) -> PushError:
    """The error for a push that printed these lines last; its last line is matched first."""
    last = next((line for line in reversed(lines) if line.strip()), "it printed nothing").strip()
    known = (
        find_known_error(KNOWN_ERRORS, last)
        or find_known_error(KNOWN_ERRORS, "\n".join(lines))
        or _UNKNOWN
    )
    if login and known.code == "login-missing":
        known = _LOGIN_REFUSED  # the engine prints the same for refused credentials
    whose = f" as {login.user!r}" if login and known.code in ("denied", "login-refused") else ""
    message = f"cannot push {reference}{whose}: {known.summary}; the last line: {last}"
    remedies = asdict(remedies_for(repository))
    remedy = known.fill(host=repository.host, **remedies).remedy
    finding = error(known.code, message, remedy, FIELD)
    return PushError(known.exit_code, finding, known.is_transient)
