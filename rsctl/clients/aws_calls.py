"""Calls to AWS in one region: a single try, or as many as it takes."""

from __future__ import annotations

import difflib
from typing import Any

from rsctl.clients.aws import (
    Explain,
    code_of,
    findings,
    message_of,
    refused,
    session,
    session_client,
)
from rsctl.clients.pace import Pace
from rsctl.findings import ExitCode, RsctlError, error

_ASKED_TO_WAIT = frozenset(
    {
        *("Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled"),
        *("RequestThrottledException", "TooManyRequestsException", "RequestLimitExceeded"),
        *("SlowDown", "PriorRequestNotComplete", "BandwidthLimitExceeded"),
    }
)
_IN_TROUBLE = frozenset(
    {
        *("RequestTimeout", "RequestTimeoutException", "InternalFailure", "InternalServerError"),
        *("ServiceUnavailable", "ServiceUnavailableException", "InternalServerException"),
    }
)
_STATUSES = frozenset({429, 500, 502, 503, 504})
_CREDENTIALS = frozenset(
    {
        *("ExpiredToken", "ExpiredTokenException", "RequestExpired", "InvalidClientTokenId"),
        *("UnrecognizedClientException", "InvalidAccessKeyId", "SignatureDoesNotMatch"),
        "InvalidSignatureException",
    }
)


def _not_connected() -> tuple[type[Exception], ...]:
    from botocore import exceptions

    return (
        exceptions.EndpointConnectionError,
        exceptions.ConnectTimeoutError,
        exceptions.ProxyConnectionError,
    )


class Lost(Exception):
    """No answer came, or one that asks to come again: it may have been carried out.

    Not if AWS `is_busy` and asks to be called later, nor if the call was not `sent` at all.
    """

    def __init__(self, message: str, is_busy: bool = False, sent: bool = True) -> None:
        super().__init__(message)
        self.is_busy, self.sent = is_busy, sent


class Refused(Exception):
    """AWS's answer is an error, with its code and message."""

    def __init__(self, code: str, message: str, explain: Explain | None = None) -> None:
        super().__init__(f"{message} ({code})")
        self.code, self.message, self._explain = code, message, explain

    def told(self, path: str | None = None) -> RsctlError:
        """The error as the user is told of it; `path` is the field that led to the call."""
        return refused(self.code, self.message, path, self._explain)


class Aws:
    """The services of one region. Clients are made when they are first called.

    Once credentials have expired they are read anew, so that a log-in elsewhere is noticed.
    """

    def __init__(self, region: str, pace: Pace | None = None, explain: Explain | None = None):
        self.region = region
        self.pace = pace or Pace.of_environment()
        self._explain = explain
        self._session: Any = None
        self._clients: dict[str, Any] = {}

    def once(self, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        """One try. Raises Lost, Refused, and RsctlError for what keeps us from asking."""
        from botocore import exceptions
        from botocore.parsers import ResponseParserError

        with findings(None, self._explain):
            call = getattr(self._client(service), operation)
            try:
                answer: dict[str, Any] = call(**parameters)
            except exceptions.ClientError as problem:
                raise self._judged(service, problem) from None
            except (exceptions.HTTPClientError, exceptions.ConnectionError) as problem:
                sent = not isinstance(problem, _not_connected())
                raise Lost(f"{service} gives no answer: {problem}", sent=sent) from None
            except ResponseParserError as problem:
                raise Lost(f"{service} gives no whole answer: {str(problem)[:200]}") from None
        return answer

    def call(self, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        """A call that may be repeated: tried again until there is an answer.

        Raises Refused, and RsctlError where none came after all tries.
        """
        for attempt in range(1, self.pace.tries + 1):
            try:
                return self.once(service, operation, **parameters)
            except Lost as problem:
                lost = problem
            if attempt < self.pace.tries:
                self.pace.before_retry(attempt)
        raise self.unreachable(lost)

    def unreachable(self, problem: Lost) -> RsctlError:
        """A service that has given no answer, after all tries. A region may not exist."""
        if problem.is_busy:
            remedy = "wait a minute, then run the command again"
            return RsctlError(ExitCode.REFUSED, error("busy", str(problem), remedy))
        if problem_of_region := _wrong_region(self.region):
            return problem_of_region
        remedy = "check the network, then run the command again"
        return RsctlError(ExitCode.ENVIRONMENT, error("network", str(problem), remedy))

    def _client(self, service: str) -> Any:
        if service not in self._clients:
            if self._session is None:
                self._session = session(self.region)
            self._clients[service] = session_client(self._session, service, tries=1)
        return self._clients[service]

    def _judged(self, service: str, problem: Any) -> Lost | Refused:
        code, message = code_of(problem), message_of(problem)
        status = problem.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if code in _ASKED_TO_WAIT or status == 429:
            return Lost(f"{service} asks to be called later: {message} ({code})", is_busy=True)
        if code in _IN_TROUBLE or status in _STATUSES:
            return Lost(f"{service} is in trouble: {message} ({code})")
        if code in _CREDENTIALS:
            self._session = None
            self._clients.clear()
        return Refused(code, message, self._explain)


def _wrong_region(region: str) -> RsctlError | None:
    """Where no endpoint answers because there is no such region."""
    import boto3

    session = boto3.Session()
    known = [
        name
        for partition in session.get_available_partitions()
        for name in session.get_available_regions("sagemaker", partition)
    ]
    if region in known:
        return None
    close = difflib.get_close_matches(region, known, n=1)
    remedy = f"did you mean {close[0]}?" if close else "name a region, such as us-east-1"
    message = f"AWS gives no answer, and no region {region} is known"
    finding = error("region", message, remedy, "targets.sagemaker.region")
    return RsctlError(ExitCode.REFUSED, finding)
