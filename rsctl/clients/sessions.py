"""The factory of HTTP clients: a request with a credential uses TLS, or stays on this machine.

Every session of requests and google-auth and every client of boto3 that rsctl makes comes from
here. The rule holds for each request that is sent, wherever its address comes from: a variable, a
file of credentials, a redirection, a realm that a registry names.
"""

from __future__ import annotations

import ipaddress
import os
import re
from typing import TYPE_CHECKING, Any

from rsctl.clients.endpoints import Endpoints
from rsctl.clients.private import host_of, is_loopback, is_private, not_private, without_secrets

if TYPE_CHECKING:
    import requests

_METADATA_SERVERS = ("metadata.google.internal", "fd00:ec2::254")
_HOST = re.compile(r"^(?:\w+\(host=[^)]*\)|<[\w. ]+>): ")
"""How a version of urllib3 names its connection; the message names the host already."""

_LONGEST_REASON = 500


def http_session(use_proxies: bool = True, **retries: Any) -> requests.Session:
    """A session of requests. `retries` is a Retry of urllib3; None disables retries.

    It raises RsctlError instead of sending anything unencrypted, except to the metadata server of a
    cloud's machine, which has no TLS and provides credentials. Neither that nor a server on this
    machine is reached through a proxy.
    """
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3 import Retry

    class Guarded(HTTPAdapter):
        def send(self, request: requests.PreparedRequest, *args: Any, **more: Any) -> Any:
            url = str(request.url)
            if not is_private(url) and not _asks_for_metadata(request):
                raise not_private(f"the address is {without_secrets(url)!r}", url)
            if is_loopback(host_of(url)) or not url.lower().startswith("https:"):
                more["proxies"] = None  # a proxy is another machine
            return super().send(request, *args, **more)

    session = requests.Session()
    _check_addresses(session)
    session.trust_env = use_proxies
    for scheme in ("https://", "http://"):
        session.mount(scheme, Guarded(max_retries=Retry(**retries) if retries else 0))
    return session


def google_request(endpoints: Endpoints) -> Any:
    """The session with which google-auth renews credentials."""
    from google.auth.transport.requests import Request

    make: Any = Request
    return make(http_session(not endpoints.is_emulator, total=3))


def google_session(credentials: Any, endpoints: Endpoints) -> Any:
    """A session of requests that adds Google's access token, and renews it."""
    from google.auth.transport.requests import AuthorizedSession

    make: Any = AuthorizedSession
    session = make(credentials, auth_request=google_request(endpoints))
    session.trust_env = not endpoints.is_emulator
    _check_addresses(session)
    for scheme, adapter in http_session().adapters.items():
        session.mount(scheme, adapter)
    return session


def _check_addresses(session: requests.Session) -> None:
    """Make a session refuse an address that parsers disagree on, before requests rewrites it."""
    prepare = session.prepare_request

    def checked(request: Any) -> Any:
        url = str(request.url)
        if host_of(url) is None:
            raise not_private(f"the address is {without_secrets(url)!r}", url)
        return prepare(request)

    setattr(session, "prepare_request", checked)  # noqa: B010 - a method of this one alone


def aws_session(endpoints: Endpoints, region: str | None) -> Any:
    """Credentials and region of boto3, whose clients keep to the rule, also those by which it
    obtains credentials itself. Raises BotoCoreError.

    One of its own: the shared session keeps the credentials that it once found.
    """
    import boto3

    if endpoints.aws_key is None:
        session = boto3.Session(region_name=region)
    else:
        key_id, secret = endpoints.aws_key
        session = boto3.Session(key_id, secret, None, region, _without_configuration())
    session.events.register("before-send", _before_send)
    return session


def _without_configuration() -> Any:
    """A session of botocore that reads no variable and no file of the user's."""
    from botocore.session import Session

    nowhere = (None, None, os.devnull, None)
    return Session(
        session_vars={
            "profile": (None, None, None, None),
            "config_file": nowhere,
            "credentials_file": nowhere,
            "ca_bundle": (None, None, None, None),
            "defaults_mode": (None, None, "legacy", None),
        }
    )


def aws_client(session: Any, endpoints: Endpoints, service: str, **settings: Any) -> Any:
    """A client of a session from `aws_session`; `settings` are parameters of botocore's Config.

    Raises BotoCoreError, and RsctlError for an endpoint without TLS that is not on this machine.
    """
    from botocore.config import Config

    if endpoints.is_emulator:
        settings |= {"proxies": {}, "use_fips_endpoint": False, "use_dualstack_endpoint": False}
    url = endpoints.aws_url(service)
    made = session.client(service, endpoint_url=url, config=Config(**settings))
    _require_private(made.meta.endpoint_url)
    if is_loopback(host_of(made.meta.endpoint_url)) and "proxies" not in settings:
        return aws_client(session, endpoints, service, **settings, proxies={})
    return made


def aws_regions(service: str) -> list[str]:
    """The regions that botocore's own data has of a service."""
    import boto3

    session = boto3.Session(botocore_session=_without_configuration())
    return [
        name
        for partition in session.get_available_partitions()
        for name in session.get_available_regions(service, partition)
    ]


def connection_problem(problem: BaseException) -> str:
    """Why no answer came, below the layers that requests and urllib3 wrap around it."""
    while below := _below(problem):
        problem = below
    return (_HOST.sub("", str(problem)) or type(problem).__name__)[:_LONGEST_REASON]


def _below(problem: BaseException) -> BaseException | None:
    inside = (getattr(problem, "reason", None), *problem.args)
    return next((part for part in inside if isinstance(part, BaseException)), None)


def _before_send(request: Any, **_: Any) -> None:
    _require_private(request.url)


def _require_private(url: str) -> None:
    if not is_private(url):
        remedy = "set AWS_ENDPOINT_URL to an https:// address, or to one on this machine"
        raise not_private(f"the endpoint is {without_secrets(url)!r}", url, remedy)


def _asks_for_metadata(request: requests.PreparedRequest) -> bool:
    """Whether this is a request to a metadata server, which carries no credentials."""
    host = (host_of(str(request.url)) or "").strip("[]").lower()
    if not host or "Authorization" in request.headers:
        return False
    if host in _METADATA_SERVERS:
        return True
    try:
        return ipaddress.ip_address(host).is_link_local
    except ValueError:
        return request.method == "GET" and "Metadata-Flavor" in request.headers
