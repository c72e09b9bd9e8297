"""Conditions of requests to S3, and what of an object's headers is kept with it.

Sources: Amazon S3's API reference of GetObject, PutObject, CopyObject, DeleteObject and
CompleteMultipartUpload; user guide, "How to prevent object overwrites with conditional writes".
"""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from rsctl.targets.managed.emulator.http import Refused, Reply
from rsctl.targets.sagemaker.emulator.s3_objects import Facts
from rsctl.targets.sagemaker.emulator.s3_payload import refused

_FAILED = "At least one of the pre-conditions you specified did not hold"
_KEPT = frozenset(
    {
        *("content-type", "content-encoding", "content-language", "content-disposition"),
        *("cache-control", "expires", "x-amz-storage-class", "x-amz-website-redirect-location"),
    }
)
_METADATA = "x-amz-meta-"
_ENCRYPTION = "x-amz-server-side-encryption"
_CUSTOMER_KEY = "x-amz-server-side-encryption-customer-"
_NOT_EMULATED = ("x-amz-tagging", "x-amz-acl", "x-amz-grant-", "x-amz-object-lock-", _CUSTOMER_KEY)
_HARMLESS = ("", "private", "bucket-owner-full-control")
"""Access lists that change nothing if all is of one account."""

DEFAULT_TYPE = "binary/octet-stream"


def require_read(headers: Mapping[str, str], facts: Facts, prefix: str = "") -> None:
    """Raise Refused where a condition of a read does not hold; `prefix` is of one of a copy.

    A tag takes precedence over a time (RFC 7232).
    """
    match, none = headers.get(f"{prefix}if-match"), headers.get(f"{prefix}if-none-match")
    if match is not None:
        if not _matches(match, facts):
            raise refused(412, "PreconditionFailed", _FAILED)
    elif _is_later(facts, headers.get(f"{prefix}if-unmodified-since")) is True:
        raise refused(412, "PreconditionFailed", _FAILED)
    if none is not None:
        is_same = _matches(none, facts)
    else:
        is_same = _is_later(facts, headers.get(f"{prefix}if-modified-since")) is False
    if is_same and prefix:
        raise refused(412, "PreconditionFailed", _FAILED)
    if is_same:
        raise Refused(Reply(304, headers={"ETag": facts.etag}))


def require_write(headers: Mapping[str, str], facts: Facts | None) -> None:
    """Raise Refused where a condition of a write or removal does not hold; None: no object."""
    match, none = headers.get("if-match"), headers.get("if-none-match")
    if none is not None and none.strip() != "*":
        message = "A header you provided implies functionality that is not implemented"
        raise refused(501, "NotImplemented", message)
    if none is not None and facts is not None:
        raise refused(412, "PreconditionFailed", _FAILED)
    if match is not None and facts is None:
        raise refused(404, "NoSuchKey", "The specified key does not exist.")
    if match is not None and facts is not None and not _matches(match, facts):
        raise refused(412, "PreconditionFailed", _FAILED)


def kept_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that a read of the object returns. Raises Refused for unsupported ones."""
    for name in headers:
        if name.startswith(_NOT_EMULATED) and headers[name] not in _HARMLESS:
            raise refused(501, "NotImplemented", f"{name} is not emulated")
    kept = {
        name: value
        for name, value in headers.items()
        if name in _KEPT or name.startswith((_METADATA, _ENCRYPTION))
    }
    parts = [part.strip() for part in kept.pop("content-encoding", "").split(",")]
    if encodings := [part for part in parts if part not in ("", "aws-chunked")]:
        kept["content-encoding"] = ",".join(encodings)
    if kept.get("x-amz-storage-class") == "STANDARD":  # the default, which no answer names
        del kept["x-amz-storage-class"]
    return {"content-type": DEFAULT_TYPE, _ENCRYPTION: "AES256", **kept}


def encryption_of(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers in the answer to a write."""
    return {name: value for name, value in headers.items() if name.startswith(_ENCRYPTION)}


def _matches(wanted: str, facts: Facts) -> bool:
    tags = [tag.strip().removeprefix("W/").strip('"') for tag in wanted.split(",")]
    return "*" in tags or facts.etag.strip('"') in tags


def _is_later(facts: Facts, wanted: str | None) -> bool | None:
    """Whether an object is of after a time, to the second; None without a time."""
    if wanted is None:
        return None
    try:
        return int(facts.modified) > parsedate_to_datetime(wanted).timestamp()
    except (TypeError, ValueError):
        return None  # a text that is not a date is ignored
