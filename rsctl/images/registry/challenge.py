"""Authentication where a registry answers 401: a password, or a token of the server it names."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode, urlsplit

from rsctl.clients.private import is_private
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.images.registry import http
from rsctl.images.registry.credentials import IDENTITY_TOKEN, Login
from rsctl.images.registry.names import FIELD, ImageRepository
from rsctl.images.registry.remedies import remedies_for

_PART = re.compile(
    r"(?:(?P<scheme>[^\s=\"]+)(?:\s+(?!=)|$))?(?:(?P<name>[^\s=\"]+)\s*=\s*(?P<value>.*))?"
)
_UNQUOTED = re.compile(r'^"|"$|\\(.)')


def authorization(repository: ImageRepository, challenge: str, login: Login | None) -> Any:
    """The `auth` for requests that answers the header `WWW-Authenticate` of a registry.

    Raises RsctlError: refused if the registry names a server without TLS, or that server refuses
    the login; environment if it does not answer.
    """
    challenges = _challenges(challenge)
    if "bearer" in challenges:
        return http.BearerAuth(_token(repository, challenges["bearer"], login))
    if "basic" in challenges and login:
        return http.BasicAuth(login.basic)
    return http.no_auth


def _challenges(header: str) -> dict[str, dict[str, str]]:
    """The parameters of each scheme that a header offers (RFC 9110, section 11.6.1)."""
    from requests.utils import parse_list_header

    found: dict[str, dict[str, str]] = {}
    parameters: dict[str, str] = {}
    for part in parse_list_header(header):
        match = _PART.fullmatch(part)
        if match is None:
            continue
        if match["scheme"]:
            parameters = found.setdefault(match["scheme"].lower(), {})
        if match["value"]:
            parameters.setdefault(match["name"].lower(), _UNQUOTED.sub(r"\1", match["value"]))
    return found


def _token(repository: ImageRepository, challenged: dict[str, str], login: Login | None) -> str:
    """A token of the kind that docker asks for before a push (distribution, token spec)."""
    realm = challenged.get("realm", "")
    if not _is_trusted(repository, realm):
        message = (
            f"{repository.host} asks for credentials at {realm!r}, which is not a secure address"
        )
        remedy = "check the host of image.repository; a registry's login must use https"
        raise RsctlError(ExitCode.REFUSED, error("registry-token", message, remedy, FIELD))
    query = {"scope": f"repository:{_path(repository, challenged)}:pull,push"}
    if "service" in challenged:
        query["service"] = challenged["service"]
    if login and login.user == IDENTITY_TOKEN:
        form = {"grant_type": "refresh_token", "refresh_token": login.secret, "client_id": "rsctl"}
        answer = http.request("POST", realm, data={**form, **query})
    else:
        auth: Any = http.BasicAuth(login.basic) if login else http.no_auth
        joint = "&" if urlsplit(realm).query else "?"
        answer = http.request("GET", f"{realm}{joint}{urlencode(query)}", auth)
    return _token_of(repository, answer, login)


def _is_trusted(repository: ImageRepository, realm: str) -> bool:
    """Whether a password may be sent there: by TLS, or on this machine, as the registry is."""
    if not is_private(realm):
        return False
    return realm.lower().startswith("https:") or repository.is_loopback


def _path(repository: ImageRepository, challenged: dict[str, str]) -> str:
    """The repository's name in the registry, which on Docker Hub may be longer."""
    named = challenged.get("scope", "").split(":")
    return named[1] if len(named) == 3 and named[1].endswith(repository.path) else repository.path


def _token_of(repository: ImageRepository, answer: http.Answer, login: Login | None) -> str:
    found = answer.json()
    token = found.get("token") or found.get("access_token")
    if answer.status == 200 and isinstance(token, str) and token.isascii() and token.isprintable():
        return token
    if answer.status in (401, 403):
        who = f"the credentials of {login.user!r}" if login else "anonymous requests"
        message = f"{repository.host} gives {who} no access to {repository.path}{answer.reason}"
        remedy = remedies_for(repository).ask_to_push if login else remedies_for(repository).log_in
        exit_code = ExitCode.REFUSED if login else ExitCode.ENVIRONMENT
        code = "denied" if login else "login-missing"
        raise RsctlError(exit_code, error(code, message, remedy, FIELD))
    if answer.status == http.BUSY:
        raise http.busy(repository.host)
    message = f"the login server of {repository.host} answers with HTTP status {answer.status}"
    message += answer.reason
    remedy = "try again later"
    raise RsctlError(ExitCode.ENVIRONMENT, error("registry-answer", message, remedy, FIELD))
