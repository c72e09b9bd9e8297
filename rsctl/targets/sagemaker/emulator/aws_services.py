"""Common parts of AWS's emulated services: JSON 1.1 by botocore's models, credentials, errors.

Services of AWS's older query protocol, which answer in XML, are supported if their answers are
flat.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from rsctl.targets.managed.emulator.http import Emulator, Refused, Reply, Request, Route
from rsctl.targets.sagemaker.emulator.aws_models import problems, service_model
from rsctl.targets.sagemaker.emulator.s3_payload import error_xml as error_xml
from rsctl.targets.sagemaker.emulator.signed_addresses import (
    is_signed_address,
    require_signature,
    signed_region,
)

_CREDENTIAL = re.compile(r"AWS4-HMAC-SHA256 Credential=([^/]+)/\d{8}/([a-z0-9-]+)/([a-z0-9]+)/")
_FORM = "application/x-www-form-urlencoded"

Parameters = dict[str, Any]
Handler = Callable[[Parameters], Parameters]


def error_query(status: int, code: str, message: str) -> Reply:
    """An error of the query protocol."""
    error = f"<Code>{escape(code)}</Code><Message>{escape(message)}</Message>"
    body = f"<ErrorResponse><Error><Type>Sender</Type>{error}</Error></ErrorResponse>"
    return Reply(status, body.encode(), {"Content-Type": "text/xml"})


class Service(NamedTuple):
    """A service: botocore's name, how it calls wrong parameters, its operations.

    `supported` are the parameters that an operation acts on; of operations where others would
    change the answer: they are refused rather than ignored.
    """

    name: str
    invalid: str
    operations: Mapping[str, Handler]
    supported: Mapping[str, frozenset[str]] = MappingProxyType({})


class AwsEmulator(Emulator):
    """Base of an emulator of AWS.

    Calls are known by `X-Amz-Target`, those of the query protocol by the service they are signed
    for; all others are S3's.
    """

    internal = "InternalFailure"

    def __init__(self, region: str) -> None:
        super().__init__()
        self.region = region
        self.account = "123456789012"
        self._key_id = "AKIA" + secrets.token_hex(8).upper()
        self._secret = secrets.token_urlsafe(30)
        self._services: dict[str, Service] = {}
        self._queries: dict[str, Service] = {}

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
        prefix = service_model(service.name).metadata.get("targetPrefix")
        if prefix is None:
            self._queries[service.name] = service
        else:
            self._services[prefix] = service

    def scope(self, request: Request) -> tuple[str, str] | None:
        """The region and the service that a request is signed for."""
        found = _CREDENTIAL.match(request.headers.get("authorization", ""))
        if found is None and self._is_s3(request) and is_signed_address(request):
            return signed_region(request) or self.region, "s3"
        return (found[2], found[3]) if found else None

    def authorize(self, request: Request) -> None:
        """Raise Refused unless this emulator's own key has signed; the signature is not checked.

        The key's id is random, so that only who was given it can know it. Of an address that is
        signed in its query the signature is checked too.
        """
        if self._is_s3(request) and is_signed_address(request):
            require_signature(request, self._key_id, self._secret)
            return
        found = _CREDENTIAL.match(request.headers.get("authorization", ""))
        if not found or found[1] != self._key_id:
            code = "InvalidAccessKeyId" if self._is_s3(request) else "UnrecognizedClientException"
            message = "The security token included in the request is invalid."
            raise Refused(self.error_for(request, 403, code, message))

    def find(self, request: Request) -> tuple[Route | None, Request]:
        """The route of an operation, made from its name; of a query, from its service's."""
        if _is_query(request):
            name = self._scoped_service(request)
            return Route(name, "POST", re.compile("/"), self._operate_query), request
        target = request.headers.get("x-amz-target")
        if target is None:
            return super().find(request)
        found = self._operation(request)
        name = f"{found[0].name}.{found[1]}" if found else "unknown"
        return Route(name, "POST", re.compile("/"), self._operate), request

    def error(self, status: int, code: str, message: str) -> Reply:
        """An error of JSON 1.1."""
        kind = "application/x-amz-json-1.1"
        body = json.dumps({"__type": code, "message": message}).encode()
        return Reply(status, body, {"Content-Type": kind, "x-amzn-ErrorType": code})

    def error_for(self, request: Request, status: int, code: str, message: str) -> Reply:
        """An error in the form of the service that this request is for."""
        form = error_xml if self._is_s3(request) else self.error
        form = error_query if _is_query(request) else form
        return form(status, code, message)

    def _is_s3(self, request: Request) -> bool:
        return "x-amz-target" not in request.headers and not _is_query(request)

    def _scoped_service(self, request: Request) -> str:
        scope = self.scope(request)
        return scope[1] if scope else "query"

    def _operate_query(self, request: Request) -> Reply:
        service = self._queries.get(self._scoped_service(request))
        fields = dict(parse_qsl(request.body.decode(errors="replace")))
        name = fields.get("Action", "")
        if service is None or name not in service.operations:
            raise Refused(error_query(400, "InvalidAction", f"there is no action {name} here"))
        result = service.operations[name](fields)
        inner = "".join(f"<{key}>{escape(str(value))}</{key}>" for key, value in result.items())
        body = f"<{name}Response><{name}Result>{inner}</{name}Result></{name}Response>"
        return Reply(200, body.encode(), {"Content-Type": "text/xml"})

    def _operation(self, request: Request) -> tuple[Service, str] | None:
        prefix, _, operation = request.headers.get("x-amz-target", "").partition(".")
        service = self._services.get(prefix)
        if service is None or operation not in service.operations:
            return None
        return service, operation

    def _operate(self, request: Request) -> Reply:
        found = self._operation(request)
        if found is None:
            target = request.headers["x-amz-target"]
            message = f"{target[:200]!r} is not emulated, or no operation of the service"
            raise self.refuse(400, "UnknownOperationException", message)
        service, name = found
        model = service_model(service.name).operation_model(name)
        try:
            parameters = request.json()
        except ValueError:
            raise self.refuse(400, "SerializationException", "not JSON") from None
        if wrong := list(problems(parameters, model.input_shape)):
            raise self.refuse(400, service.invalid, "; ".join(wrong))
        if strange := sorted(parameters.keys() - service.supported.get(name, parameters.keys())):
            raise self.refuse(400, service.invalid, f"{strange[0]} is not emulated")
        result = service.operations[name](parameters)
        if model.output_shape and (wrong := list(problems(result, model.output_shape))):
            raise self.refuse(500, "InternalFailure", f"the emulator's answer: {wrong}")
        return Reply.of(result, kind="application/x-amz-json-1.1")


def _is_query(request: Request) -> bool:
    """Whether a request is of the query protocol."""
    return request.method == "POST" and _FORM in request.headers.get("content-type", "")
