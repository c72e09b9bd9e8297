"""Known errors of builds in a cloud, by the status or phase of a failed build."""

from __future__ import annotations

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.known_errors import KnownError, find_known_error


def known_failure(
    code: str,
    remedy: str,
    *codes: str,
    path: str | None = None,
    exit_code: ExitCode = ExitCode.REFUSED,
    summary: str | None = None,
) -> KnownError:
    """A failure of the service or of the account, by the service's own codes."""
    return KnownError(code, remedy, path, exit_code, codes=frozenset(codes), summary=summary)


_COMMON = (
    known_failure(
        "build-cancelled",
        "run the command again",
        *("CANCELLED", "STOPPED"),
        exit_code=ExitCode.CANCELLED,
        summary="the build was cancelled",
    ),
    known_failure(
        "build-timeout",
        "build on a machine with Docker, or use a base image that has more of the "
        "packages installed",
        *("TIMEOUT", "EXPIRED", "TIMED_OUT"),
        exit_code=ExitCode.TIMED_OUT,
        summary="the build took too long",
    ),
)
"""Failures that all services have: Cloud Build's `Build.Status` and CodeBuild's `buildStatus`."""


def service_error(own: tuple[KnownError, ...], message: str, *codes: str) -> RsctlError | None:
    """The error of a build with these codes if the service or the account is at fault.

    `own` are the failures of this service alone.
    """
    known = find_known_error((*_COMMON, *own), message, *codes)
    if known is None:
        return None
    shown = f"{known.summary}: {message}" if known.summary else message
    return RsctlError(known.exit_code, error(known.code, shown, known.remedy, known.path))
