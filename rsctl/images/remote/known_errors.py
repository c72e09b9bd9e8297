"""Known errors of Cloud Build and CodeBuild, by the status or phase of a failed build."""

from __future__ import annotations

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.known_errors import KnownError, find_known_error

_REPOSITORY = "image.repository"
_STAGING = "targets.vertex.staging"
_BUILD_ROLE = "targets.sagemaker.build_role"


def _known(
    code: str,
    remedy: str,
    *codes: str,
    path: str | None = None,
    exit_code: ExitCode = ExitCode.REFUSED,
    summary: str | None = None,
) -> KnownError:
    return KnownError(code, remedy, path, exit_code, codes=frozenset(codes), summary=summary)


_KNOWN = (
    _known(
        "build-cancelled",
        "run the command again",
        *("CANCELLED", "STOPPED"),
        exit_code=ExitCode.CANCELLED,
        summary="the build was cancelled",
    ),
    _known(
        "build-timeout",
        "build on a machine with Docker, or use a base image that has more of the "
        "packages installed",
        *("TIMEOUT", "EXPIRED", "TIMED_OUT"),
        exit_code=ExitCode.TIMED_OUT,
        summary="the build took too long",
    ),
    _known(
        "push",
        "create the repository: `gcloud artifacts repositories create NAME "
        "--repository-format=docker --location=LOCATION`, and check image.repository",
        "PUSH_FAILED",
        path=_REPOSITORY,
    ),
    _known("push", "run the command again", "PUSH_IMAGE_NOT_FOUND"),
    _known(
        "denied",
        "give the build's service account roles/artifactregistry.writer on the repository",
        "PUSH_NOT_AUTHORIZED",
        path=_REPOSITORY,
    ),
    _known(
        "denied",
        "give the build's service account roles/storage.admin on the staging bucket",
        "LOGGING_FAILURE",
        path=_STAGING,
    ),
    _known(
        "denied",
        "give the build's service account roles/storage.objectViewer on the staging bucket",
        "FETCH_SOURCE_FAILED",
        path=_STAGING,
    ),
    _known(
        "denied",
        "give the build role s3:GetObject on the staging folder",
        "DOWNLOAD_SOURCE",
        path=_BUILD_ROLE,
    ),
    _known(
        "denied",
        "give the build role ecr:GetAuthorizationToken and permission to push",
        "PRE_BUILD",
        path=_BUILD_ROLE,
    ),
)
"""By Cloud Build's `Build.Status` and `FailureInfo.FailureType`, and CodeBuild's `buildStatus` and
`phaseType`."""


def service_error(message: str, *codes: str) -> RsctlError | None:
    """The error of a build with these codes, if it is the service's or its account's fault."""
    known = find_known_error(_KNOWN, message, *codes)
    if known is None:
        return None
    shown = f"{known.summary}: {message}" if known.summary else message
    return RsctlError(known.exit_code, error(known.code, shown, known.remedy, known.path))
