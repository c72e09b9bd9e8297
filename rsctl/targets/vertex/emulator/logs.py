"""Cloud Logging, as far as reading goes: POST /v2/entries:list."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from itertools import count, islice
from typing import Any

from rsctl.targets.managed.emulator.http import Reply, Request, Route, route
from rsctl.targets.managed.emulator.page_tokens import make_token, read_token
from rsctl.targets.managed.emulator.rate_limiter import RequestLimit
from rsctl.targets.vertex.emulator.behaviour import Behaviour
from rsctl.targets.vertex.emulator.filters import NotEmulated
from rsctl.targets.vertex.emulator.google_services import GoogleEmulator
from rsctl.targets.vertex.emulator.log_entries import StoredLogEntry, shown
from rsctl.targets.vertex.emulator.log_filter import LoggingFilter
from rsctl.targets.vertex.emulator.log_store import LogStore

_FIELDS = {"resourceNames": list, "filter": str, "orderBy": str, "pageSize": int, "pageToken": str}
_ORDERS = {"": False, "timestamp": False, "timestamp asc": False, "timestamp desc": True}
_DEFAULT_PAGE = 50
_LONGEST_PAGE = 1000
_MOST_BYTES = 8 << 20


class Logging:
    """entries:list of one project."""

    def __init__(self, emulator: GoogleEmulator, log_store: LogStore, behaviour: Behaviour) -> None:
        self._emulator = emulator
        self._log_store = log_store
        self._behaviour = behaviour
        self._rate = RequestLimit()
        self._reads = count(1)
        self._random = random.Random(0)  # noqa: S311 - disorder

    def routes(self) -> list[Route]:
        """The routes of the service."""
        return [route("logging.entries.list", "POST", "/v2/entries:list", self._list)]

    def _list(self, request: Request) -> Reply:
        if not self._rate.allows(self._behaviour.log_reads, self._behaviour.pace):
            raise self._emulator.exceed(
                "logging.googleapis.com", "Read requests", "ReadRequestsPerMinutePerProject"
            )
        wanted = self._checked(request)
        try:
            query = LoggingFilter(wanted.get("filter", ""), self._emulator.project)
        except NotEmulated as problem:
            raise self._emulator.refuse(501, "UNIMPLEMENTED", str(problem)) from None
        except ValueError as problem:
            raise self._emulator.invalid(str(problem)) from None
        size = wanted.get("pageSize") or _DEFAULT_PAGE
        after = self._after(wanted)
        if self._behaviour.empty_every and next(self._reads) % self._behaviour.empty_every == 0:
            return Reply.of({"nextPageToken": make_token(wanted, after)})
        is_descending = _ORDERS[wanted.get("orderBy", "")]
        found = self._log_store.entries(query.span, is_descending, after)
        return self._page(wanted, (entry for entry in found if query.takes(entry)), size)

    def _page(self, wanted: dict[str, Any], found: Iterator[StoredLogEntry], size: int) -> Reply:
        entries: list[StoredLogEntry] = []
        length = 0
        for entry in islice(found, size):
            entries.append(entry)
            length += len(entry.payload)
            if length > _MOST_BYTES:
                break
        answer: dict[str, Any] = {}
        if entries:
            answer["entries"] = [shown(entry, self._emulator.project) for entry in
                                 self._disordered(entries)]  # fmt: skip
        if next(found, None) is not None:
            answer["nextPageToken"] = make_token(wanted, (entries[-1].time, entries[-1].insert_id))
        return Reply.of(answer)

    def _disordered(self, entries: list[StoredLogEntry]) -> list[StoredLogEntry]:
        """The same with some twice and in another order, where the project is so behaved."""
        twice = self._behaviour.twice_every
        given = [
            entry
            for number, entry in enumerate(entries)
            for _ in range(2 if twice and number % twice == 0 else 1)
        ]
        if self._behaviour.shuffle:
            self._random.shuffle(given)
        return given

    def _checked(self, request: Request) -> dict[str, Any]:
        try:
            wanted = request.json()
            problem = _problem(wanted, (self._emulator.project, self._emulator.number))
        except (ValueError, RecursionError):
            problem = "Invalid JSON payload received. Unexpected token."
        if problem:
            raise self._emulator.invalid(problem)
        return dict(wanted)

    def _after(self, wanted: dict[str, Any]) -> tuple[str, str] | None:
        if not wanted.get("pageToken"):
            return None
        try:
            position = read_token(wanted["pageToken"], wanted, math.inf)
            return (str(position[0]), str(position[1])) if position else None
        except (ValueError, TypeError, IndexError):
            pass
        message = "page_token is not of this query: all other parameters must stay the same"
        raise self._emulator.invalid(message)


def _problem(wanted: Any, projects: tuple[str, ...]) -> str | None:
    if not isinstance(wanted, dict):
        return "Invalid JSON payload received. An object is expected."
    for name, value in wanted.items():
        if name not in _FIELDS:
            return f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.'
        if not isinstance(value, _FIELDS[name]):
            return f"Invalid value at '{name}', {str(value)[:100]}"
    if wanted.get("resourceNames", []) == [] or any(
        name not in [f"projects/{project}" for project in projects]
        for name in wanted["resourceNames"]
    ):
        return f"resource_names must have projects/{projects[0]} and nothing else"
    if not 0 <= wanted.get("pageSize", 0) <= _LONGEST_PAGE:
        return f"page_size must be from 0 to {_LONGEST_PAGE}"
    if wanted.get("orderBy", "") not in _ORDERS:
        return f"order_by is one of {', '.join(map(repr, _ORDERS))}"
    return None
