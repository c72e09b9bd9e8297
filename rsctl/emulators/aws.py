"""What AWS's emulated services share: JSON 1.1 by botocore's models, credentials, errors."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from rsctl.emulators.aws_models import problems, service_model
from rsctl.emulators.http import Emulator, Refused, Reply, Request, Route

_CREDENTIAL = re.compile(r"AWS4-HMAC-SHA256 Credential=([A-Z0-9]+)/\d{8}/([a-z0-9-]+)/([a-z0-9]+)/")

Parameters = dict[str, Any]
Handler = Callable[[Parameters], Parameters]


def error_xml(status: int, code: str, message: str) -> Reply:
    """An error of S3."""
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{escape(code)}</Code><Message>{escape(message)}</Message></Error>"
    )
    return Reply(status, body.encode(), {"Content-Type": "application/xml"})


class Service(NamedTuple):
    """A service of JSON 1.1: botocore's name, how it calls wrong parameters, its operations."""

    name: str
    invalid: str
    operations: Mapping[str, Handler]


class AwsEmulator(Emulator):
    """Base of an emulator of AWS. Calls are known by `X-Amz-Target`; all others are S3's."""

    def __init__(self, region: str) -> None:
        super().__init__()
        self.region = region
        self.account = "123456789012"
        self._key_id = "AKIA" + secrets.token_hex(8).upper()
        self._secret = secrets.token_urlsafe(30)
        self._services: dict[str, Service] = {}

    def environment(self) -> dict[str, str]:
        """The variables by which AWS's clients find this emulator."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": self._key_id,
            "AWS_SECRET_ACCESS_KEY": self._secret,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def add(self, service: Service) -> None:
        """Have a service answer here too."""
        prefix = service_model(service.name).metadata["targetPrefix"]
        self._services[prefix] = service

    def authorize(self, request: Request) -> None:
        """Raise Refused unless this emulator's own key has signed; the signature is not checked.

        The key's id is random, so that only who was given it can know it.
        """
        found = _CREDENTIAL.match(request.headers.get("authorization", ""))
        if not found or found[1] != self._key_id:
            code = "InvalidAccessKeyId" if self._is_s3(request) else "UnrecognizedClientException"
            message = "The security token included in the request is invalid."
            raise Refused(self.error_for(request, 403, code, message))

    def find(self, request: Request) -> tuple[Route | None, Request]:
        """The route of an operation, made from its name."""
        found = self._operation(request)
        if found is None:
            return super().find(request)
        service, operation = found
        name = f"{service.name}.{operation}"
        return Route(name, "POST", re.compile("/"), self._operate), request

    def error(self, status: int, code: str, message: str) -> Reply:
        """An error of JSON 1.1."""
        kind = "application/x-amz-json-1.1"
        body = json.dumps({"__type": code, "message": message}).encode()
        return Reply(status, body, {"Content-Type": kind, "x-amzn-ErrorType": code})

    def error_for(self, request: Request, status: int, code: str, message: str) -> Reply:
        """An error in the form of the service that this request is for."""
        form = error_xml if self._is_s3(request) else self.error
        return form(status, code, message)

    def _is_s3(self, request: Request) -> bool:
        return "x-amz-target" not in request.headers

    def _operation(self, request: Request) -> tuple[Service, str] | None:
        prefix, _, operation = request.headers.get("x-amz-target", "").partition(".")
        service = self._services.get(prefix)
        if service is None or operation not in service.operations:
            return None
        return service, operation

    def _operate(self, request: Request) -> Reply:
        found = self._operation(request)
        if found is None:
            raise self.refuse(400, "UnknownOperationException", "no such operation here")
        service, name = found
        model = service_model(service.name).operation_model(name)
        try:
            parameters = request.json()
        except ValueError:
            raise self.refuse(400, "SerializationException", "not JSON") from None
        if wrong := list(problems(parameters, model.input_shape)):
            raise self.refuse(400, service.invalid, "; ".join(wrong))
        result = service.operations[name](parameters)
        if model.output_shape and (wrong := list(problems(result, model.output_shape))):
            raise self.refuse(500, "InternalFailure", f"the emulator's answer: {wrong}")
        return Reply.of(result, kind="application/x-amz-json-1.1")
