"""Calls to AWS in one region, by boto3, which is imported when the first is made."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from threading import Lock
from typing import Any

from rsctl.clients.aws_errors import AwsError, FindKnown, aws_errors
from rsctl.clients.endpoints import Endpoints
from rsctl.clients.errors import (
    AWS_LOGIN,
    NO_CREDENTIALS,
    OF_OTHER_TYPES,
    NoAnswer,
    no_answer,
)
from rsctl.clients.retries import RetryPolicy
from rsctl.clients.sessions import aws_client, aws_regions, aws_session
from rsctl.findings import ExitCode, RsctlError, error

_CONNECT_TIMEOUT = 10
_READ_TIMEOUT = 60
_CREDENTIAL_CODES = ("credentials", "credentials-expired", "clock")


class Aws:
    """The services of one region. Clients are made when they are first called.

    `path` is the field of the job that errors are about, unless a call or `find_known` names
    another. After a refusal, credentials are read again, so that a login in another terminal takes
    effect. Threads can share it.
    """

    def __init__(
        self,
        endpoints: Endpoints,
        region: str | None,
        path: str | None = None,
        find_known: FindKnown | None = None,
        retries: RetryPolicy | None = None,
        use_fips: bool | None = None,
    ) -> None:
        self.region, self.retries = region, retries or RetryPolicy.of(endpoints)
        self._endpoints = endpoints
        self._path, self._find_known, self._use_fips = path, find_known, use_fips
        self._lock = Lock()
        self._session: Any = None
        self._clients: dict[tuple[str, int], Any] = {}

    def request(
        self,
        service: str,
        operation: str,
        parameters: Mapping[str, Any] | None = None,
        retry: bool = True,
        member: str | None = None,
    ) -> dict[str, Any]:
        """Call an operation by boto3's name for it; with `retry` again until there is an answer,
        which only calls that may be repeated can be.

        An answer without a value of `member` is not one, such as the page of a proxy. Raises
        NoAnswer after all tries, AwsError for an answer that is an error, and RsctlError if
        the call cannot be made.
        """
        tries = self.retries.tries if retry else 1
        for attempt in range(1, tries):
            try:
                return self._request_once(service, operation, parameters or {}, member)
            except NoAnswer:
                self.retries.before_retry(attempt)
        try:
            return self._request_once(service, operation, parameters or {}, member)
        except NoAnswer as problem:
            if not retry:
                raise
            raise self.given_up(problem) from None

    def given_up(self, problem: NoAnswer) -> RsctlError:
        """The error after the last attempt: if no server answers, the region may not exist."""
        if problem.is_busy or problem.sent or self.region is None:
            return problem
        return _no_such_region(self.region) or problem

    def credentials(self) -> None:
        """Check that credentials exist, without a request. Raises RsctlError."""
        with aws_errors("AWS", self._path, self._find_known):
            found = aws_session(self._endpoints, self.region).get_credentials()
        if found is None:
            finding = error(NO_CREDENTIALS, "there are no AWS credentials", AWS_LOGIN, self._path)
            raise RsctlError(ExitCode.ENVIRONMENT, finding)

    def client(self, service: str, tries: int = 1) -> Any:
        """boto3's own client, which tries so often by itself. Raises BotoCoreError, RsctlError."""
        with self._lock:
            if (service, tries) not in self._clients:
                if self._session is None:
                    self._session = aws_session(self._endpoints, self.region)
                self._clients[service, tries] = aws_client(
                    self._session,
                    self._endpoints,
                    service,
                    retries={"mode": "standard", "total_max_attempts": tries},
                    connect_timeout=_CONNECT_TIMEOUT,
                    read_timeout=_READ_TIMEOUT,
                    use_fips_endpoint=self._use_fips,
                )
            return self._clients[service, tries]

    def _request_once(
        self, service: str, operation: str, parameters: Mapping[str, Any], member: str | None
    ) -> dict[str, Any]:
        try:
            with aws_errors(service, self._path, self._find_known):
                call = getattr(self.client(service), operation)
                try:
                    answer: dict[str, Any] | None = call(**parameters)
                except OF_OTHER_TYPES:
                    answer = None
            if answer is None or _is_page(service, answer) or (member and not answer.get(member)):
                raise no_answer(service, "the answer is not the JSON that it documents")
            return answer
        except AwsError as problem:
            if problem.findings[0].code in _CREDENTIAL_CODES:
                with self._lock:
                    self._session = None
                    self._clients.clear()
            raise


def _is_page(service: str, answer: Mapping[str, Any]) -> bool:
    """Whether an answer, which boto3 takes for an empty one, is a proxy's page; not an object."""
    if service == "s3":
        return False
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    return "html" in headers.get("content-type", "")


def _no_such_region(region: str) -> RsctlError | None:
    """Where no endpoint answers because there is no such region."""
    known = aws_regions("sagemaker")
    if region in known:
        return None
    close = difflib.get_close_matches(region, known, n=1)
    remedy = f"did you mean {close[0]}?" if close else "set a region, such as us-east-1"
    message = f"AWS gives no answer, and region {region} is unknown"
    finding = error("region", message, remedy, "targets.sagemaker.region")
    return RsctlError(ExitCode.REFUSED, finding)
