"""The answer to a registry's "401": a password, or a token from the server that it names."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode, urlsplit

from rsctl.clients.clients import is_loopback, is_private
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.image.registry import http
from rsctl.image.registry.access import access_to
from rsctl.image.registry.credentials import IDENTITY_TOKEN, Login
from rsctl.image.registry.names import FIELD, Repository


def authorization(place: Repository, challenge: str, login: Login | None) -> Any:
    """The `auth` for requests that answers the header `WWW-Authenticate` of a registry.

    Raises RsctlError: refused if the registry sends its visitors to a server without TLS, or that
    server refuses the log-in; environment if it does not answer.
    """
    scheme, _, rest = challenge.partition(" ")
    if scheme.lower() == "bearer":
        return http.Token(_token(place, _parameters(rest), login))
    if scheme.lower() == "basic" and login:
        return http.Password(login.basic)
    return http.anonymous


def _parameters(text: str) -> dict[str, str]:
    from requests.utils import parse_dict_header

    return {key: value for key, value in parse_dict_header(text).items() if value}


def _token(place: Repository, asked: dict[str, str], login: Login | None) -> str:
    """A token of the kind that docker asks for before a push (distribution, token spec)."""
    realm = asked.get("realm", "")
    if not _may_know(place, realm):
        message = f"{place.host} wants its visitors to log in at {realm!r}, which is not private"
        remedy = "check the host of image.repository; a registry's log-in must use https"
        raise RsctlError(ExitCode.REFUSED, error("registry-token", message, remedy, FIELD))
    query = {"scope": f"repository:{_path(place, asked)}:pull,push"}
    if "service" in asked:
        query["service"] = asked["service"]
    if login and login.user == IDENTITY_TOKEN:
        form = {"grant_type": "refresh_token", "refresh_token": login.secret, "client_id": "rsctl"}
        answer = http.ask("POST", realm, data={**form, **query})
    else:
        auth: Any = http.Password(login.basic) if login else http.anonymous
        joint = "&" if urlsplit(realm).query else "?"
        answer = http.ask("GET", f"{realm}{joint}{urlencode(query)}", auth)
    return _token_in(place, answer, login)


def _may_know(place: Repository, realm: str) -> bool:
    """Whether a password may go there: with TLS, or on this machine as the registry itself is."""
    if not is_private(realm):
        return False
    url = urlsplit(realm)
    if url.scheme == "http":
        return place.is_loopback and is_loopback(url.hostname)
    return not url.username


def _path(place: Repository, asked: dict[str, str]) -> str:
    """The repository's name as the registry has it, which on Docker Hub may be longer."""
    named = asked.get("scope", "").split(":")
    return named[1] if len(named) == 3 and named[1].endswith(place.path) else place.path


def _token_in(place: Repository, answer: http.Answer, login: Login | None) -> str:
    found = answer.json()
    token = found.get("token") or found.get("access_token")
    if answer.status == 200 and isinstance(token, str) and token.isascii() and token.isprintable():
        return token
    if answer.status in (401, 403):
        whom = f"the log-in of {login.user!r}" if login else "visitors without a log-in"
        message = f"{place.host} gives {whom} no access to {place.path}"
        remedy = access_to(place).ask_to_push if login else access_to(place).log_in
        exit_code = ExitCode.REFUSED if login else ExitCode.ENVIRONMENT
        code = "denied" if login else "login-missing"
        raise RsctlError(exit_code, error(code, message, remedy, FIELD))
    message = f"the log-in server of {place.host} answers with HTTP status {answer.status}"
    remedy = "try again later"
    raise RsctlError(ExitCode.ENVIRONMENT, error("registry-answer", message, remedy, FIELD))
