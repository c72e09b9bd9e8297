"""Which addresses may be sent a credential: those with TLS, and this machine's own."""

from __future__ import annotations

from urllib.parse import urlsplit

from rsctl.findings import ExitCode, RsctlError, error


def is_loopback(host: str | None) -> bool:
    """Whether a host's name or address, without a port, is this machine."""
    if host == "localhost":
        return True
    import ipaddress  # a plan asks for the hosts of registries only, by their names

    try:
        return ipaddress.ip_address((host or "").strip("[]")).is_loopback
    except ValueError:
        return False


def is_private(url: str) -> bool:
    """Whether nobody between here and the other side reads what is sent to an address."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return False
    return bool(host) and (
        parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))
    )


def in_clear(
    what: str, remedy: str = "give an https:// address, or one on this machine"
) -> RsctlError:
    """The error for an address that is not private; `what` names it."""
    message = f"{what}, which would send credentials in clear over the network"
    return RsctlError(ExitCode.ENVIRONMENT, error("endpoint", message, remedy))
