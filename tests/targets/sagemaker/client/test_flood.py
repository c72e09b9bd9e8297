"""The log of a job of 60 machines, under all faults: every line, once."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

from rsctl.clients.aws import Aws
from rsctl.clients.endpoints import Endpoints
from rsctl.clients.retries import RetryPolicy
from rsctl.findings import RsctlError
from rsctl.runs.stream.events import LogEvent
from rsctl.targets.base import Pool
from rsctl.targets.managed.service import Unreachable
from rsctl.targets.sagemaker.hosts import Hosts
from rsctl.targets.sagemaker.logs import TrainingLog

from .fake_logs import Clock, Entry, FakeLogs
from .reading import JOB, event_time, node

POOLS = [Pool(role="worker", count=44), Pool(role="reducer", count=16)]
SECONDS = 120


def reader(clock: Clock, cursor: dict[str, Any], created: str) -> TrainingLog:
    aws = Aws(Endpoints.of_environment(), "us-east-1", retries=RetryPolicy())
    hosts = Hosts(JOB, POOLS, cursor.get("hosts"))
    return TrainingLog(aws, JOB, hosts, cursor, created, clock, clock)


def roles(seed: int) -> dict[int, str]:
    """Which replica algo-N is: groups are neither sorted nor in one piece; 60 never comes."""
    names = [f"worker-{i}" for i in range(44)] + [f"reducer-{i}" for i in range(16)]
    random.Random(seed).shuffle(names)
    return dict(enumerate(names[:59], start=1))


def job_log(
    start: float, count: int, latest: float, steady: bool
) -> tuple[list[Entry], dict[str, str]]:
    """A spot job: 59 streams, and another 59 after an interruption; texts with their replicas.

    Every 50th event comes up to `latest` seconds late; unless `steady`, out of its stream's order.
    """
    chance = random.Random(7)
    entries: list[Entry] = []
    expected: dict[str, str] = {}
    number = 0
    for attempt, begin in enumerate((0.0, SECONDS / 2)):
        hosts = roles(attempt)
        for host, replica in hosts.items():
            stream = f"{JOB}/algo-{host}-{int(start) + attempt * 1000}"
            texts = [node(replica, host=f"algo-{host}", attempt=attempt)] + [
                f"{attempt} {host} {index}" for index in range(count // (2 * len(hosts)) + 1)
            ]
            moments = sorted(chance.uniform(begin, begin + SECONDS / 2) for _ in texts)
            ingested = 0.0
            for text, moment in zip(texts, moments, strict=True):
                delay = chance.uniform(0, 3)
                if chance.random() < 0.02 and text[0] != "{":
                    delay = chance.uniform(0, latest)
                visible = start + moment + delay
                if steady:
                    visible = ingested = max(visible, ingested)
                entries.append(Entry(int((start + moment) * 1000), number, stream, text, visible))
                expected[text] = replica
                number += 1
    return entries, expected


def read_all(log: TrainingLog, clock: Clock, end: float) -> Iterator[list[LogEvent]]:
    """Batches until it is complete; errors that pass are passed over."""
    while not log.is_complete:
        if clock.now > end:
            log.finish(event_time(end))
        assert clock.now < end + 900, "it does not come to its end"
        try:
            lines = log.read()
        except (Unreachable, RsctlError):
            lines = None
        clock.now += 0.1
        if lines:
            yield lines


def test_nothing_is_lost_and_nothing_comes_twice(logs: FakeLogs, clock: Clock) -> None:
    start = clock.now
    entries, expected = job_log(start, 12_000, latest=55.0, steady=False)
    logs.put(entries)
    logs.page = 3000  # as many pages as a job of 40,000 lines has
    logs.is_odd = True
    logs.group_from = start + 4
    logs.refusals = [
        (start + 10, "ThrottlingException"),
        (start + 20, "InternalFailure"),
        (start + 20, "ThrottlingException"),
        (start + 30, "ExpiredTokenException"),
        (start + 45, "InvalidParameterException"),
        (start + 70, "ServiceUnavailableException"),
    ]
    given = Counter[tuple[str, str | None]]()
    for lines in read_all(reader(clock, {}, event_time(start)), clock, start + SECONDS):
        assert [line.time for line in lines] == sorted(line.time for line in lines)
        given.update((line.text, line.replica) for line in lines)
    assert given == Counter(expected.items())
    assert logs.too_fast == 0
    assert not logs.refusals


def test_readers_that_take_over_lose_nothing(logs: FakeLogs, clock: Clock) -> None:
    """A reader is killed every few seconds; the next goes on from the last one's cursor.

    Hosts lag behind by up to half a minute, each with its lines in order.
    """
    start = clock.now
    entries, expected = job_log(start, 10_000, latest=30.0, steady=True)
    logs.put(entries)
    given = Counter[tuple[str, str | None]]()
    chance, kept, readers = random.Random(3), "{}", 0
    while True:
        log = reader(clock, json.loads(kept), event_time(start))
        readers += 1
        until = clock.now + chance.uniform(0.1, 8)
        for lines in read_all(log, clock, start + SECONDS):
            given.update((line.text, line.replica) for line in lines)
            kept = json.dumps(log.cursor())
            assert len(kept) < 256 << 10
            if clock.now > until:
                break
        if log.is_complete:
            break
    assert given == Counter(expected.items())
    assert readers > 20
