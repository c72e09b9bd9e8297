"""ListObjects and ListObjectsV2 of the emulated S3."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import NamedTuple, Union
from urllib.parse import quote
from xml.sax.saxutils import escape

from rsctl.targets.sagemaker.emulator.s3_objects import Facts, FolderObjects

_MOST = 1000


class _Object(NamedTuple):
    key: str
    facts: Facts


class _Prefix(NamedTuple):
    key: str


def listing(objects: FolderObjects, bucket: str, query: Mapping[str, str]) -> str:
    """The answer's XML. Raises ValueError for an invalid number."""
    is_second = query.get("list-type") == "2"
    most = min(int(query.get("max-keys") or _MOST), _MOST)
    after = _after(query) if is_second else query.get("marker", "")
    found = _entries(objects, bucket, query.get("prefix", ""), query.get("delimiter", ""), after)
    page = [entry for _, entry in zip(range(most + 1), found, strict=False)]
    is_truncated, page = len(page) > most, page[:most]
    encode = quote if query.get("encoding-type") == "url" else str
    fields = {
        "Name": bucket,
        "Prefix": encode(query.get("prefix", "")),
        "Delimiter": encode(query.get("delimiter", "")),
        "MaxKeys": str(most),
        "EncodingType": query.get("encoding-type", ""),
        "IsTruncated": str(is_truncated).lower(),
    }
    if is_second:
        fields["KeyCount"] = str(len(page))
    if is_truncated and page:
        last = page[-1].key
        fields |= (
            {"NextContinuationToken": _token(last)} if is_second else {"NextMarker": encode(last)}
        )
    head = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in fields.items() if text)
    return head + "".join(_shown(entry, encode(entry.key)) for entry in page)


def _after(query: Mapping[str, str]) -> str:
    """The key beyond which a page begins. Raises ValueError for a token that was never given."""
    if token := query.get("continuation-token"):
        return base64.urlsafe_b64decode(token.encode()).decode()
    return query.get("start-after", "")


def _token(key: str) -> str:
    """A token has only characters that XML allows, for all keys."""
    return base64.urlsafe_b64encode(key.encode()).decode()


def _entries(
    objects: FolderObjects, bucket: str, prefix: str, delimiter: str, after: str
) -> Iterator[Union[_Object, _Prefix]]:
    """Objects, and their common prefixes up to the delimiter, in order and after a key."""
    last = ""
    for key in objects.names(bucket):
        if not key.startswith(prefix):
            continue
        head, is_deeper, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
        if is_deeper:
            common = prefix + head + delimiter
            if common > after and common != last:
                yield _Prefix(common)
            last = common
        elif key > after and (facts := objects.facts(bucket, key)):
            yield _Object(key, facts)


def _shown(entry: _Object | _Prefix, key: str) -> str:
    if isinstance(entry, _Prefix):
        return f"<CommonPrefixes><Prefix>{escape(key)}</Prefix></CommonPrefixes>"
    facts = entry.facts
    return (
        f"<Contents><Key>{escape(key)}</Key><LastModified>{stamp(facts.modified)}</LastModified>"
        f"<ETag>{escape(facts.etag)}</ETag><Size>{facts.size}</Size>"
        "<StorageClass>STANDARD</StorageClass></Contents>"
    )


def stamp(seconds: float) -> str:
    """A time in the format of lists."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")
