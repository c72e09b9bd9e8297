"""Maps log streams and hosts to replicas.

A stream is called JOB/algo-N-EPOCH, and a host that is started again, after a spot interruption,
gets a new one. In a job of one group, algo-N is worker-(N-1), since the runtime numbers the hosts
so. In a job of several groups, neither the stream nor any answer of the service names the group of
a host. The runtime's first line does,

    {"rsctl": "node", "replica": "reducer-1", "host": "algo-3"}

and counts for its stream only (in a rehearsal its host may be an address). Foreign images have no
such line. Their hosts get names by a stable guess: unknown hosts, by number, get the free names,
workers first. If all other hosts have reported their names, it is certain.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rsctl.runs.stream.metrics import structured
from rsctl.targets.base import Pool, replica_names

_STREAM = re.compile(r"algo-([1-9]\d{0,5})(?:-(\d{1,20}))?")
_KEPT_PER_HOST = 2  # streams: late lines of the last one, after the next has begun


class Hosts:
    """Streams and their replicas. `kept` is the `cursor` of an earlier reader."""

    def __init__(self, job: str, pools: list[Pool], kept: Mapping[str, Any] | None = None) -> None:
        self._prefix = f"{job}/"
        self._names = replica_names(pools) or ["worker-0"]
        self._is_uniform = len(pools) <= 1
        reported, guessed = ((kept or {}).get(name, {}) for name in ("told", "guessed"))
        self._reported: dict[str, str] = {s: n for s, n in reported.items() if n in self._names}
        self._guessed: dict[str, str] = {s: n for s, n in guessed.items() if n in self._names}

    def replica(self, stream: str) -> str | None:
        """The replica of a stream; None if it has not reported one and none is guessed."""
        number = self.number(stream)
        if self._is_uniform and number is not None:
            return self._names[min(number, len(self._names)) - 1]
        return self._reported.get(stream) or self._guessed.get(stream)

    def number(self, stream: str) -> int | None:
        """N of algo-N."""
        name = stream[len(self._prefix) :] if stream.startswith(self._prefix) else ""
        match = _STREAM.fullmatch(name)
        return int(match[1]) if match else None

    def examine(self, stream: str, text: str) -> None:
        """Take the replica that a line reports for its stream; only the first such line counts."""
        if self._is_uniform or stream in self._reported:
            return
        record = structured(text)
        if record is None or record["rsctl"] != "node" or record.get("replica") not in self._names:
            return
        host = str(record.get("host", ""))
        if _STREAM.fullmatch(host) and host != f"algo-{self.number(stream)}":
            return  # another node's line, passed on
        self._reported[stream] = record["replica"]
        self._guessed.pop(stream, None)
        self._forget_old(self._reported, stream)

    def guess(self, stream: str) -> str:
        """Guess the replica of a stream whose host has not reported it."""
        number = self.number(stream) or 0
        earlier = {self.number(s) or 0: name for s, name in _in_order(self._guessed)}
        named = {**earlier, **self.by_host()}
        if number not in named:
            free = [n for n in self._names if n not in named.values()] or self._names
            others = [n for n in range(1, len(self._names) + 1) if n not in named]
            index = others.index(number) if number in others else 0
            named[number] = free[min(index, len(free) - 1)]
        self._guessed[stream] = named[number]
        self._forget_old(self._guessed, stream)
        return named[number]

    def guessed(self) -> dict[str, str]:
        """The hosts with a guessed name, such as `algo-2`."""
        known = self.by_host()
        hosts = {self.number(stream) or 0: name for stream, name in _in_order(self._guessed)}
        return {f"algo-{n}": name for n, name in sorted(hosts.items()) if n not in known}

    def by_host(self) -> dict[int, str]:
        """The replicas of the known hosts, by number; for each host, the last stream's."""
        if self._is_uniform:
            return dict(enumerate(self._names, start=1))
        return {self.number(stream) or 0: name for stream, name in _in_order(self._reported)}

    def cursor(self) -> dict[str, dict[str, str]]:
        """The known hosts, as JSON, for a reader that continues from here."""
        return {"told": dict(self._reported), "guessed": dict(self._guessed)}

    def _forget_old(self, names: dict[str, str], stream: str) -> None:
        number = self.number(stream)
        streams = [known for known, _ in _in_order(names) if self.number(known) == number]
        for known in streams[:-_KEPT_PER_HOST]:
            del names[known]


def _in_order(names: Mapping[str, str]) -> list[tuple[str, str]]:
    """Streams and their names, the later ones last."""
    return sorted(names.items(), key=lambda item: _epoch(item[0]))


def _epoch(stream: str) -> int:
    match = _STREAM.fullmatch(stream.rpartition("/")[2])
    return int(match[2]) if match and match[2] else 0
