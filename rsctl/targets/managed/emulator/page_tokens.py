"""Page tokens of lists and logs. Each is valid for one query, and for some time."""

from __future__ import annotations

import base64
import binascii
import json
import time
from typing import Any


def make_token(query: dict[str, Any], position: Any) -> str:
    """A token for a position, which is any JSON value."""
    content = [_normal(query), position, time.time()]
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode()


def read_token(token: str, query: dict[str, Any], seconds: float) -> Any:
    """The position of a token. Raises ValueError if it is another query's, or too old."""
    try:
        asked, position, made = json.loads(base64.urlsafe_b64decode(token))
    except (ValueError, TypeError, RecursionError, binascii.Error):
        raise ValueError("this emulator did not issue this token") from None
    if asked != _normal(query) or time.time() - made > seconds:
        raise ValueError("it belongs to another query, or is too old")
    return position


def _normal(query: dict[str, Any]) -> str:
    """The parts of a query to which its token is bound."""
    free = ("nextToken", "NextToken", "pageToken", "limit", "MaxResults", "pageSize")
    return json.dumps({k: v for k, v in query.items() if k not in free}, sort_keys=True)
