"""Why a push failed, read from what docker or podman said."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.image.registry.access import Access, access_to
from rsctl.image.registry.credentials import Login
from rsctl.image.registry.names import FIELD, Repository

TAG_IMMUTABLE = "tag-immutable"
"""The code of a finding that the tag is there already and must stay as it is."""

Remedy = Callable[[Access, Repository], str]


@dataclass(frozen=True)
class Cause:
    """One known cause: the words that give it away, and what to tell the user."""

    code: str
    words: str
    what: str
    remedy: Remedy
    exit_code: ExitCode = ExitCode.REFUSED
    is_passing: bool = False


class PushFailed(RsctlError):
    """A push failed; `is_passing` says that trying again may help."""

    def __init__(self, exit_code: ExitCode, finding: Finding, is_passing: bool) -> None:
        super().__init__(exit_code, finding)
        self.code = finding.code
        self.is_passing = is_passing


_LOGIN_REFUSED = Cause(
    "login-refused",
    r"unauthorized|incorrect username or password|invalid username/password|failed auth",
    "the registry does not accept the log-in",
    lambda access, place: access.log_in,
)
# The first that fits counts, so the more exact ones come first. Words of the engine, of podman and
# of the registries' error codes (OCI distribution: NAME_UNKNOWN, DENIED, TOOMANYREQUESTS, ...).
CAUSES = (
    Cause(
        "engine",
        r"cannot connect to the docker daemon|is the docker daemon running|docker daemon socket"
        r"|docker api at",
        "no Docker engine lets us in",
        lambda access, place: "start it, and see that this user may use its socket",
        ExitCode.ENVIRONMENT,
    ),
    Cause(
        "image-missing",
        r"image does not exist locally|no such image|image not known",
        "the engine has no such image",
        lambda access, place: "build it first, with the engine that is to push it",
        ExitCode.ENVIRONMENT,
    ),
    Cause(
        TAG_IMMUTABLE,
        r"immutab|cannot be overwritten|tag invalid",
        "the registry holds another image by this tag and lets no tag be moved",
        lambda access, place: (
            "run the command again: it takes the image that is there, which "
            "was made from the same files"
        ),
    ),
    Cause(
        "registry-busy",
        r"toomanyrequests|too many requests|statuscode: 429|status: 429",
        "the registry has had too many requests",
        lambda access, place: "try again later",
        ExitCode.ENVIRONMENT,
        is_passing=True,
    ),
    Cause(
        "quota",
        r"quota|storage limit|limit ?exceeded|insufficient storage",
        "the registry has no room for it",
        lambda access, place: f"delete images from {place.host} that nobody needs, or ask for more",
    ),
    Cause(
        "repository-missing",
        r"name unknown|name_unknown|repository \S+ not found|repository with name .* not exist",
        "the registry has no such repository",
        lambda access, place: access.create,
    ),
    Cause(
        "repository",
        r"name invalid|name_invalid|invalid reference format|missing image name"
        r"|invalid repository name|repository name must",
        "the registry does not accept the repository's name",
        lambda access, place: "correct image.repository",
        ExitCode.USAGE,
    ),
    Cause(
        "login-missing",
        r"no basic auth credentials|authentication required|unauthenticated|not authenticated"
        r"|no credentials|anonymous token",
        "the registry asks for a log-in, and has got none that it accepts",
        lambda access, place: access.log_in,
        ExitCode.ENVIRONMENT,
    ),
    Cause(
        "credentials-expired",
        r"token has expired|token is expired|expired token",
        "the log-in has expired",
        lambda access, place: access.log_in,
        ExitCode.ENVIRONMENT,
    ),
    _LOGIN_REFUSED,
    Cause(
        "denied",
        r"denied|forbidden|status: 403|insufficient_scope",
        "no permission",
        lambda access, place: access.ask_to_push,
    ),
    Cause(
        "certificate",
        r"x509|certificate",
        "the engine does not accept the registry's certificate",
        lambda access, place: (
            "put the certificate of the authority that signed it into "
            f"/etc/docker/certs.d/{place.host}/ca.crt on the engine's machine"
        ),
        ExitCode.ENVIRONMENT,
    ),
    Cause(
        "registry-plain",
        r"http response to https client",
        "the registry speaks no TLS",
        lambda access, place: (
            f"give it a certificate, or add {place.host} to "
            '"insecure-registries" of the Docker engine'
        ),
        ExitCode.ENVIRONMENT,
    ),
    Cause(
        "registry-unreachable",
        r"connection refused|no such host|no route to host|network is unreachable",
        "the engine cannot reach the registry",
        lambda access, place: (
            f"check that {place.host} is right, that it runs, and the engine's network and proxy"
        ),
        ExitCode.ENVIRONMENT,
    ),
    Cause(
        "registry-unstable",
        r"status:? 5\d\d|statuscode: 5\d\d|\b50[0234] |\beof\b|connection reset|broken pipe"
        r"|timeout|timed out|deadline exceeded|temporary failure|server misbehaving"
        r"|closed network connection|http2: |blob upload (?:unknown|invalid)|unexpected eof",
        "the registry broke off again and again",
        lambda access, place: f"try again later; check the network to {place.host} and its proxies",
        ExitCode.ENVIRONMENT,
        is_passing=True,
    ),
)
_UNKNOWN = Cause(
    "push",
    "",
    "the push failed",
    lambda access, place: f"try `docker push` by hand; check {place.host}",
    ExitCode.ENVIRONMENT,
)


def explain(lines: list[str], reference: str, place: Repository, login: Login | None) -> PushFailed:
    """The error for a push that ended with these lines; the last is the one that says why."""
    said = next((line for line in reversed(lines) if line.strip()), "it said nothing").strip()
    cause = _cause(said) or _cause("\n".join(lines)) or _UNKNOWN
    if login and cause.code == "login-missing":
        cause = _LOGIN_REFUSED  # the engine says the same of a log-in that did not help
    access = access_to(place)
    whose = f" as {login.user!r}" if login and cause.code in ("denied", "login-refused") else ""
    message = f"cannot push {reference}{whose}: {cause.what}; the last words: {said}"
    finding = error(cause.code, message, cause.remedy(access, place), FIELD)
    return PushFailed(cause.exit_code, finding, cause.is_passing)


def _cause(said: str) -> Cause | None:
    lower = said.lower()
    return next((cause for cause in CAUSES if re.search(cause.words, lower)), None)
