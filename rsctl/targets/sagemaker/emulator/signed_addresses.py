"""Addresses of S3 that are signed in their query, so that a client without credentials may ask.

Both forms that AWS's SDKs make are checked, signature and expiry too: that such an address is good
for one method and object alone is what it is for. Sources: Amazon S3's API reference,
"Authenticating Requests: Using Query Parameters (AWS Signature Version 4)" and "Signing and
Authenticating REST Requests" (version 2); botocore, auth.py: S3SigV4QueryAuth, HmacV1QueryAuth.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from calendar import timegm
from urllib.parse import quote

from rsctl.targets.managed.emulator.http import Request
from rsctl.targets.sagemaker.emulator.s3_payload import refused

_LONGEST = 7 * 24 * 3600  # seconds
_RESOURCE = frozenset(
    {
        *("acl", "delete", "location", "partNumber", "tagging", "uploadId", "uploads"),
        *("versionId", "versions", "response-cache-control", "response-content-disposition"),
        *("response-content-encoding", "response-content-language", "response-content-type"),
        "response-expires",
    }
)
"""The parts of a query that version 2 signs."""

_WRONG = (
    "The request signature we calculated does not match the signature you provided. Check your "
    "key and signing method."
)


def is_signed_address(request: Request) -> bool:
    """Whether the query has a signature."""
    return "X-Amz-Signature" in request.query or "AWSAccessKeyId" in request.query


def signed_region(request: Request) -> str:
    """The region that an address is signed for; of version 2, which has none, an empty text."""
    return [*request.query.get("X-Amz-Credential", "").split("/"), "", "", ""][2]


def require_signature(request: Request, key_id: str, secret: str) -> None:
    """Raise Refused unless the address is signed by this key, and still good."""
    query = request.query
    if "X-Amz-Signature" in query:
        owner, _, scope = query.get("X-Amz-Credential", "").partition("/")
        began, lasts = _seconds(query.get("X-Amz-Date", "")), query.get("X-Amz-Expires", "")
        if began is None or not lasts.isdigit() or not 0 < int(lasts) <= _LONGEST:
            message = "X-Amz-Expires must be a number of seconds, at most a week"
            raise refused(400, "AuthorizationQueryParametersError", message)
        ends, given = began + int(lasts), query["X-Amz-Signature"]
        expected = _version_4(request, scope, secret)
    else:
        owner, expires = query["AWSAccessKeyId"], query.get("Expires", "")
        ends, given = int(expires) if expires.isdigit() else 0, query.get("Signature", "")
        expected = _version_2(request, secret)
    if owner != key_id:
        message = "The AWS Access Key Id you provided does not exist in our records."
        raise refused(403, "InvalidAccessKeyId", message)
    if not hmac.compare_digest(given.encode(), expected.encode()):
        raise refused(403, "SignatureDoesNotMatch", _WRONG)
    if ends < time.time():
        raise refused(403, "AccessDenied", "Request has expired")


def _version_4(request: Request, scope: str, secret: str) -> str:
    query = request.query
    signed = query.get("X-Amz-SignedHeaders", "host").split(";")
    canonical = "\n".join(
        [
            request.method,
            request.path.partition("?")[0],
            "&".join(
                f"{_quoted(name)}={_quoted(query[name])}"
                for name in sorted(query, key=_quoted)
                if name != "X-Amz-Signature"
            ),
            *(f"{name}:{' '.join(request.headers.get(name, '').split())}" for name in signed),
            "",
            ";".join(signed),
            request.headers.get("x-amz-content-sha256", "UNSIGNED-PAYLOAD"),
        ]
    )
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", query.get("X-Amz-Date", ""), scope, digest])
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex()


def _version_2(request: Request, secret: str) -> str:
    query, headers = request.query, request.headers
    own = sorted(name for name in query if name in _RESOURCE)
    named = [f"{name}={query[name]}" if query[name] else name for name in own]
    resource = request.path.partition("?")[0] + ("?" + "&".join(named) if named else "")
    names = [name for name in sorted(headers) if name.startswith("x-amz-")]
    amazon = [f"{name}:{headers[name].strip()}" for name in names]
    text = "\n".join(
        [
            request.method,
            headers.get("content-md5", ""),
            headers.get("content-type", ""),
            query.get("Expires", ""),
            *amazon,
            resource,
        ]
    )
    return base64.b64encode(hmac.digest(secret.encode(), text.encode(), "sha1")).decode()


def _quoted(text: str) -> str:
    return quote(text, safe="-_.~")


def _seconds(date: str) -> int | None:
    try:
        return timegm(time.strptime(date, "%Y%m%dT%H%M%SZ"))
    except ValueError:
        return None
