"""Which addresses may be sent a credential: addresses with TLS, and this machine's own.

urllib, urllib3 and the parsers of other libraries disagree on the host of an unusual address:
`http://HOST:80\\@127.0.0.1/` is HOST for one and 127.0.0.1 for the other. So only an address that
every parser reads in the same way is taken, and rsctl reads it in one place, here.
"""

from __future__ import annotations

import re

from rsctl.findings import ExitCode, RsctlError, error

_ADDRESS = re.compile(
    r"(?P<scheme>https?)://"
    r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9._~!$&'()*+,;=-]+)(?::[0-9]{0,5})?"
    r"(?:[/?#][^\x00-\x20\x7f\\]*)?",
    re.IGNORECASE,
)
"""No user information, no backslash, no control character, no space; a host in ASCII."""


def is_loopback(host: str | None) -> bool:
    """Whether a host's name or address, without a port, is this machine."""
    if (host or "").lower() == "localhost":
        return True
    import ipaddress  # a plan asks for the hosts of registries only, by their names

    try:
        return ipaddress.ip_address((host or "").strip("[]")).is_loopback
    except ValueError:
        return False


def host_of(url: str) -> str | None:
    """The host of an http or https address; None if parsers can disagree on it."""
    found = _ADDRESS.fullmatch(url)
    return found["host"] if found else None


def is_private(url: str) -> bool:
    """Whether only this machine, or the host in the address by TLS, can read the request."""
    found = _ADDRESS.fullmatch(url)
    if found is None:
        return False
    return found["scheme"].lower() == "https" or is_loopback(found["host"])


def without_secrets(url: str) -> str:
    """An address without its user information and its query, to be shown."""
    head, joint, rest = re.split("[?#]", url, maxsplit=1)[0].partition("://")
    if "@" in rest:  # for some parser all before it is a password
        rest = rest.rpartition("@")[2]
    return f"{head}{joint}{rest}"


def not_private(what: str, url: str, remedy: str | None = None) -> RsctlError:
    """The error for an address that is not private; `what` names it."""
    if url.lower().startswith(("http:", "https:")) and host_of(url) is None:
        reason = "has a user, a backslash, a space, a control character or a host not in ASCII"
        message = f"{what}, which {reason}: programs disagree about its host"
        remedy = "give the address as https://HOST/PATH"
    else:
        message = f"{what}, which would send credentials unencrypted over the network"
        remedy = remedy or "give an https:// address, or one on this machine"
    return RsctlError(ExitCode.ENVIRONMENT, error("endpoint", message, remedy))
