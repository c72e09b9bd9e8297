"""Tokens by which lists and logs are read on. Each is good for one query, and for some time."""

from __future__ import annotations

import base64
import binascii
import json
import time
from typing import Any


def token_of(query: dict[str, Any], place: Any) -> str:
    """A token that leads on to a place, which is anything that JSON has."""
    content = [_normal(query), place, time.time()]
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode()


def place_in(token: str, query: dict[str, Any], seconds: float) -> Any:
    """The place that a token leads to. Raises ValueError if it is another query's, or too old."""
    try:
        asked, place, made = json.loads(base64.urlsafe_b64decode(token))
    except (ValueError, TypeError, RecursionError, binascii.Error):
        raise ValueError("no token of ours") from None
    if asked != _normal(query) or time.time() - made > seconds:
        raise ValueError("of another query, or too old")
    return place


def _normal(query: dict[str, Any]) -> str:
    """What of a query its token is bound to."""
    free = ("nextToken", "NextToken", "limit", "MaxResults")
    return json.dumps({k: v for k, v in query.items() if k not in free}, sort_keys=True)
