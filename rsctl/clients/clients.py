"""The factory of HTTP clients: what carries a credential goes by TLS, or stays on this machine.

Every session of requests and google-auth and every client of boto3 that rsctl makes comes from
here. The rule holds for each request that is sent, wherever its address comes from: a variable, a
file of credentials, a redirection, a realm that a registry names.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rsctl.findings import ExitCode, RsctlError, error

if TYPE_CHECKING:
    import requests

_METADATA_SERVERS = ("metadata.google.internal", "fd00:ec2::254")


def is_loopback(host: str | None) -> bool:
    """Whether a host's name or address, without a port, is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address((host or "").strip("[]")).is_loopback
    except ValueError:
        return False


def is_private(url: str) -> bool:
    """Whether nobody between here and the other side reads what is sent to an address."""
    try:
        place = urlsplit(url)
        host = place.hostname
    except ValueError:
        return False
    return bool(host) and (
        place.scheme == "https" or (place.scheme == "http" and is_loopback(host))
    )


def in_clear(what: str, remedy: str = "give an https:// address, or one on this machine") -> Any:
    """The error for an address that is not private; `what` names it."""
    message = f"{what}, which would send credentials in clear over the network"
    return RsctlError(ExitCode.ENVIRONMENT, error("endpoint", message, remedy))


def http_session(**retries: Any) -> requests.Session:
    """A session of requests. `retries` are those of urllib3's Retry; none without.

    It raises RsctlError rather than send anything in clear, except to the metadata server of a
    cloud's machine, which has no TLS and is where credentials come from.
    """
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3 import Retry

    class Guarded(HTTPAdapter):
        def send(self, request: requests.PreparedRequest, *args: Any, **more: Any) -> Any:
            url = str(request.url)
            if not is_private(url) and not _asks_for_metadata(request):
                raise in_clear(f"the address is {_shown(url)!r}")
            return super().send(request, *args, **more)

    session = requests.Session()
    for scheme in ("https://", "http://"):
        session.mount(scheme, Guarded(max_retries=Retry(**retries) if retries else 0))
    return session


def google_request() -> Any:
    """What google-auth renews credentials by."""
    from google.auth.transport.requests import Request

    make: Any = Request
    return make(http_session(total=3))


def google_session(credentials: Any) -> Any:
    """A session of requests that adds Google's access token, and renews it."""
    from google.auth.transport.requests import AuthorizedSession

    make: Any = AuthorizedSession
    session = make(credentials, auth_request=google_request())
    for scheme, adapter in http_session().adapters.items():
        session.mount(scheme, adapter)
    return session


def aws_session(region: str | None) -> Any:
    """Credentials and region of boto3, whose clients keep to the rule, also those by which it
    obtains credentials itself. Raises BotoCoreError.

    One of its own: the shared session keeps the credentials that it once found.
    """
    import boto3

    session = boto3.Session(region_name=region)
    session.events.register("before-send", _before_send)
    return session


def aws_client(session: Any, service: str, **settings: Any) -> Any:
    """A client of a session from `aws_session`; `settings` are those of botocore's Config.

    Raises BotoCoreError, and RsctlError for an endpoint without TLS that is not on this machine.
    """
    from botocore.config import Config

    made = session.client(service, config=Config(**settings))
    _require_private(made.meta.endpoint_url)
    return made


def _before_send(request: Any, **_: Any) -> None:
    _require_private(request.url)


def _require_private(url: str) -> None:
    if not is_private(url):
        remedy = "let AWS_ENDPOINT_URL give an https:// address, or one on this machine"
        raise in_clear(f"the endpoint is {_shown(url)!r}", remedy)


def _asks_for_metadata(request: requests.PreparedRequest) -> bool:
    """Whether this is a question to a metadata server, which sends no credential of ours."""
    host = urlsplit(str(request.url)).hostname or ""
    if host in _METADATA_SERVERS:
        return True
    try:
        return ipaddress.ip_address(host).is_link_local
    except ValueError:
        return request.method == "GET" and "Metadata-Flavor" in request.headers


def _shown(url: str) -> str:
    """An address without what may be secret in it: user, password and query."""
    place = urlsplit(url)
    return f"{place.scheme}://{place.netloc.rpartition('@')[2]}{place.path}"
