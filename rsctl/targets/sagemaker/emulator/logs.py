"""CloudWatch Logs, as far as reading the log of training jobs goes."""

from __future__ import annotations

import itertools
import random
import shlex
from collections.abc import Iterable
from typing import Any

from rsctl.targets.managed.emulator.http import Refused
from rsctl.targets.managed.emulator.page_tokens import make_token, read_token
from rsctl.targets.managed.emulator.rate_limiter import RequestLimit
from rsctl.targets.sagemaker.emulator.aws_services import AwsEmulator, Parameters, Service
from rsctl.targets.sagemaker.emulator.behaviour import Behaviour
from rsctl.targets.sagemaker.emulator.log_store import GROUP, Event, Key, LogStore

_INVALID = "InvalidParameterException"
_MOST_EVENTS = 10_000
_MOST_BYTES = 1 << 20
_MOST_STREAMS = 50
_PER_EVENT = 26  # bytes that CloudWatch counts for each event beside its text
_FOREVER = 1 << 53
_START: Key = (0, "")
_SECOND = 1.0
_OTHER_PATTERNS = ("{", "[", "?", "-", "%")
_OF_GROUP = ("logGroupName", "logGroupIdentifier", "nextToken", "limit")
_OF_EVENTS = (*_OF_GROUP, "startTime", "endTime", "unmask")
_SUPPORTED = {
    "FilterLogEvents": frozenset(
        {*_OF_EVENTS, "logStreamNames", "logStreamNamePrefix", "filterPattern", "interleaved"}
    ),
    "GetLogEvents": frozenset({*_OF_EVENTS, "logStreamName", "startFromHead"}),
    "DescribeLogStreams": frozenset({*_OF_GROUP, "logStreamNamePrefix", "orderBy", "descending"}),
    "DescribeLogGroups": frozenset({"logGroupNamePrefix", "nextToken", "limit"}),
}


class Logs:
    """The log group of training jobs, in pages disordered as the behaviour says."""

    def __init__(self, emulator: AwsEmulator, log_store: LogStore, behaviour: Behaviour) -> None:
        self._emulator = emulator
        self._log_store = log_store
        self._behaviour = behaviour
        self._rates = {name: RequestLimit(_SECOND) for name in ("filter", "get", "streams")}
        self._pages = itertools.count(1)
        operations = {
            "FilterLogEvents": self._filter,
            "GetLogEvents": self._get,
            "DescribeLogStreams": self._describe_streams,
            "DescribeLogGroups": self._describe_groups,
        }
        emulator.add(Service("logs", _INVALID, operations, _SUPPORTED))

    def _filter(self, wanted: Parameters) -> Parameters:
        self._check_rate("filter", self._behaviour.log_reads)
        self._require_group(wanted)
        if "logStreamNames" in wanted and "logStreamNamePrefix" in wanted:
            message = "logStreamNames and logStreamNamePrefix exclude each other"
            raise self._refused(_INVALID, message)
        after: Key = tuple(self._position(wanted) or _START)
        number = next(self._pages)
        if self._behaviour.empty_every and number % self._behaviour.empty_every == 0:
            return {"events": [], "searchedLogStreams": [], "nextToken": make_token(wanted, after)}
        streams = wanted.get("logStreamNames")
        if streams is None:
            streams = self._log_store.streams(wanted.get("logStreamNamePrefix", ""))
        low, high = wanted.get("startTime", 0), wanted.get("endTime", _FOREVER)
        found = self._log_store.events(streams, low, high, after)
        page, is_last = _page(found, wanted.get("limit", _MOST_EVENTS))
        more = {} if is_last else {"nextToken": make_token(wanted, page[-1].key)}
        terms = self._terms(wanted)
        kept = [event for event in page if all(term in event.text for term in terms)]
        return {"events": self._shown(kept), "searchedLogStreams": [], **more}

    def _get(self, wanted: Parameters) -> Parameters:
        """One stream, forwards or backwards. A token stays the same where nothing more is."""
        self._check_rate("get", self._behaviour.log_reads)
        self._require_group(wanted)
        stream = wanted["logStreamName"]
        if not self._log_store.has(stream):
            message = "The specified log stream does not exist."
            raise self._refused("ResourceNotFoundException", message)
        low, high = wanted.get("startTime", 0), wanted.get("endTime", _FOREVER) - 1
        limit = wanted.get("limit", _MOST_EVENTS)
        direction, position = self._direction(wanted)
        if direction == "b":
            before = self._log_store.before(stream, low, high, position)
            page = _page(before, limit)[0][::-1]
        else:
            page = _page(self._log_store.events([stream], low, high, position), limit)[0]
        nothing = position if "nextToken" in wanted else _START
        first, last = (page[0].key, page[-1].key) if page else (nothing, nothing)
        return {
            "events": [
                {"timestamp": e.time, "message": e.text, "ingestionTime": e.ingested} for e in page
            ],
            "nextForwardToken": f"f/{last[0]:020d}{last[1]}",
            "nextBackwardToken": f"b/{first[0]:020d}{first[1]}",
        }

    def _direction(self, wanted: Parameters) -> tuple[str, Key]:
        token = wanted.get("nextToken")
        if token is None:
            return ("f", _START) if wanted.get("startFromHead") else ("b", (_FOREVER, ""))
        kind, _, position = token.partition("/")
        if kind not in ("f", "b") or not (position.isascii() and position.isdigit()):
            raise self._refused(_INVALID, "The specified nextToken is invalid.")
        return kind, (int(position[:20]), position[20:])

    def _describe_streams(self, wanted: Parameters) -> Parameters:
        self._check_rate("streams", self._behaviour.stream_reads)
        self._require_group(wanted)
        position = self._position(wanted) or 0
        names = self._log_store.streams(wanted.get("logStreamNamePrefix", ""))
        if wanted.get("orderBy") == "LastEventTime":
            if "logStreamNamePrefix" in wanted:
                message = "Cannot order by LastEventTime with a logStreamNamePrefix."
                raise self._refused(_INVALID, message)
            names.sort(key=lambda name: self._ends(name)[1].time)
        if wanted.get("descending"):
            names.reverse()
        until = position + wanted.get("limit", _MOST_STREAMS)
        more = {"nextToken": make_token(wanted, until)} if until < len(names) else {}
        return {"logStreams": [self._stream(name) for name in names[position:until]], **more}

    def _describe_groups(self, wanted: Parameters) -> Parameters:
        prefix = wanted.get("logGroupNamePrefix", "")
        is_wanted = self._log_store.is_there and GROUP.startswith(prefix)
        group = {"logGroupName": GROUP, "arn": self._arn(), "storedBytes": 0}
        return {"logGroups": [group] if is_wanted else []}

    def _stream(self, name: str) -> Parameters:
        first, last = self._ends(name)
        return {
            "logStreamName": name,
            "creationTime": first.time,
            "firstEventTimestamp": first.time,
            "lastEventTimestamp": last.time,
            "lastIngestionTime": last.ingested,
            "arn": f"{self._arn()}:log-stream:{name}",
            "storedBytes": 0,
        }

    def _ends(self, name: str) -> tuple[Event, Event]:
        first = next(self._log_store.events([name], 0, _FOREVER, _START))
        return first, next(self._log_store.before(name, 0, _FOREVER, (_FOREVER, "")))

    def _arn(self) -> str:
        scope = f"{self._emulator.region}:{self._emulator.account}"
        return f"arn:aws:logs:{scope}:log-group:{GROUP}"

    def _shown(self, events: list[Event]) -> list[Parameters]:
        """A page in the form of the API, with the effects of the behavior."""
        kept = self._behaviour
        every = kept.twice_every
        twice = [event for event in events if every and int(event.id) % every == 0]
        page = sorted([*events, *twice])
        if kept.shuffle:
            random.shuffle(page)
        return [
            {
                "logStreamName": event.stream,
                "timestamp": event.time,
                "message": event.text,
                "ingestionTime": event.ingested,
                "eventId": event.id,
            }
            for event in page
        ]

    def _terms(self, wanted: Parameters) -> list[str]:
        """Only filter patterns of terms that must all occur are supported here."""
        pattern = wanted.get("filterPattern", "")
        try:
            terms = shlex.split(pattern)
        except ValueError:
            terms = ["{"]
        if any(term[:1] in _OTHER_PATTERNS for term in terms):
            message = f"rsctl's emulator knows patterns of plain terms only, not {pattern!r}"
            raise self._refused(_INVALID, message)
        return terms

    def _check_rate(self, name: str, limit: int) -> None:
        """Raise Refused if a request is too many."""
        if not self._rates[name].allows(limit, self._behaviour.pace):
            raise self._refused("ThrottlingException", "Rate exceeded")

    def _require_group(self, wanted: Parameters) -> None:
        given = wanted.get("logGroupName") or wanted.get("logGroupIdentifier", "")
        if not self._log_store.is_there or given not in (GROUP, self._arn()):
            message = "The specified log group does not exist."
            raise self._refused("ResourceNotFoundException", message)

    def _position(self, wanted: Parameters) -> Any:
        """The position of a token, None without one. Raises Refused."""
        if "nextToken" not in wanted:
            return None
        lifetime = self._behaviour.token_life * self._behaviour.pace
        try:
            return read_token(wanted["nextToken"], wanted, lifetime)
        except ValueError:
            raise self._refused(_INVALID, "The specified nextToken is invalid.") from None

    def _refused(self, code: str, message: str) -> Refused:
        return self._emulator.refuse(400, code, message)


def _page(events: Iterable[Event], limit: int) -> tuple[list[Event], bool]:
    """As many as fit, and whether these are the last."""
    page: list[Event] = []
    size = 0
    for event in events:
        size += len(event.text.encode(errors="replace")) + _PER_EVENT
        if len(page) == limit or (page and size > _MOST_BYTES):
            return page, False
        page.append(event)
    return page, True
