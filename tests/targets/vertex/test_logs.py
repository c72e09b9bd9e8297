"""A job's log under all faults at once, within Cloud Logging's quota, by a clock of its own."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace

import pytest

from rsctl.clients.endpoints import Endpoints
from rsctl.clients.google import Google
from rsctl.clients.retries import RetryPolicy
from rsctl.runs.stream.events import LogEvent
from rsctl.targets.managed.emulator.faults import Fault
from rsctl.targets.managed.emulator.http import Reply, Request
from rsctl.targets.managed.service import Unreachable
from rsctl.targets.vertex.job_address import JobAddress
from rsctl.targets.vertex.logs import VertexLog
from rsctl.targets.vertex.server_clock import ServerClock
from rsctl.targets.vertex.timestamps import event_time, timestamp

from .fake_google import START, Entry, FakeGoogle, LogFaults

TASKS = ["workerpool0-0", *(f"workerpool1-{n}" for n in range(55))]
TASKS += [f"workerpool2-{n}" for n in range(8)]
HOUR = 3600.0
ROLES = ("worker", "worker", "reducer", "evaluator")


def name_of(task: str) -> str:
    pool, index = int(task[10]), int(task[12:])
    return f"reducer-{index}" if pool == 2 else f"worker-{index + (pool == 1)}"


class Reader:
    """Reads a log as a collector does, and can be killed and started again."""

    def __init__(self, google: FakeGoogle, ended: float) -> None:
        self.fake, self.ended = google, ended
        self.lines: list[LogEvent] = []
        self.largest_cursor = 0
        self.unreachable = 0
        self._google = Google(
            replace(Endpoints.of_environment(), time_scale=1.0),
            "rehearsal",
            RetryPolicy(sleep=lambda seconds: None),
        )
        self._cursor = "{}"
        self.start()

    def start(self) -> None:
        address = JobAddress.of_url("vertex://rehearsal/us-central1/1")
        created = event_time(timestamp(START)) or ""
        cursor = json.loads(self._cursor)
        self.log = VertexLog(self._google, address, cursor, created, ROLES, self.fake.clock)

    def step(self) -> None:
        """One reading; where there is none, half a second passes."""
        if self.fake.clock.seconds >= self.ended:
            self.log.finish(event_time(timestamp(self.ended)) or "")
        try:
            lines = self.log.read()
        except Unreachable:
            self.unreachable += 1
            self.fake.clock.seconds += 2.0
            return
        if lines is None:
            self.fake.clock.seconds += 0.5
        else:
            self.lines += lines
            self._cursor = json.dumps(self.log.cursor())
            self.largest_cursor = max(self.largest_cursor, len(self._cursor))

    def until_complete(self, patience: float = 4 * HOUR) -> None:
        limit = self.fake.clock.seconds + patience
        while not self.log.is_complete:
            self.step()
            assert self.fake.clock.seconds < limit


def published(
    google: FakeGoogle, lines: int, seconds: float, late: float = 0.0, seed: int = 7
) -> Counter[tuple[str, str]]:
    """Lines of all replicas, evenly over a time, some of them late; by replica and text."""
    chance = random.Random(seed)
    expected: Counter[tuple[str, str]] = Counter()
    for number in range(lines):
        moment = START + seconds * number / lines
        task = TASKS[chance.randrange(len(TASKS))]
        delay = chance.uniform(10, 28) if chance.random() < late else chance.uniform(0.2, 3)
        text = f"line {number}"
        identity = f"{chance.getrandbits(60):x}"
        google.add(Entry(timestamp(moment), identity, moment + delay, task, {"textPayload": text}))
        expected[name_of(task), text] += 1
    google.sort()
    return expected


def reported(lines: list[LogEvent]) -> Counter[tuple[str, str]]:
    return Counter((str(line.replica), line.text) for line in lines)


def test_nothing_lost_and_nothing_twice_under_all_faults(google: FakeGoogle) -> None:
    expected = published(google, 60_000, 180.0, late=0.05)
    google.log_faults = LogFaults(repeat=0.02, shuffle=0.2, empty=0.03, unavailable=0.03, others=25)
    cuts = [Fault("entries", path="", cut="answer", times=1) for _ in range(5)]
    requests, most = 0, 0

    def at_log() -> None:
        nonlocal requests, most
        requests += 1
        most = max(most, len(google.log_requests))
        if requests % 30 == 0:
            google.access.expire()
        if requests % 12 == 0 and cuts:
            google.faults.add(cuts.pop())

    google.at_log = at_log
    reader = Reader(google, ended=START + 180)
    reader.until_complete()
    assert reported(reader.lines) == expected
    assert len({(line.replica, line.id) for line in reader.lines}) == 60_000
    assert google.statuses[503] > 0
    assert google.statuses[429] > 0
    assert not cuts
    assert most <= 40  # of 60, so that others have their share
    assert requests < 3 * 60  # the least is 60 pages
    assert reader.largest_cursor < 45_000


def test_a_second_reader_goes_on_where_the_first_was_killed(google: FakeGoogle) -> None:
    expected = published(google, 30_000, 150.0, late=0.1)
    reader, chance = Reader(google, ended=START + 150), random.Random(3)
    while not reader.log.is_complete:
        reader.step()
        if chance.random() < 0.1:
            reader.start()
    assert reported(reader.lines) == expected


@pytest.mark.parametrize("seed", range(6))
def test_a_quiet_log_shows_late_lines_at_once(google: FakeGoogle, seed: int) -> None:
    expected = published(google, 400, 400.0, late=0.3, seed=seed)
    reader = Reader(google, ended=START + 400)
    latest = {entry.payload["textPayload"]: entry.visible for entry in google.entries}
    delays = []
    while not reader.log.is_complete:
        before = len(reader.lines)
        reader.step()
        delays += [google.clock.seconds - latest[line.text] for line in reader.lines[before:]]
    assert reported(reader.lines) == expected
    assert max(delays) < 12.0


def test_it_is_complete_once_nothing_late_is_to_be_expected(google: FakeGoogle) -> None:
    google.add(
        Entry(timestamp(START + 1), "a", START + 2, "workerpool0-0", {"textPayload": "early"})
    )
    google.add(
        Entry(timestamp(START + 9), "b", START + 35, "workerpool0-0", {"textPayload": "late"})
    )
    reader = Reader(google, ended=START + 10)
    reader.until_complete()
    assert [line.text for line in reader.lines] == ["early", "late"]
    assert START + 40 <= google.clock.seconds < START + 45
    assert reader.log.read() is None


def test_the_log_of_an_old_job_is_read_in_one_go(google: FakeGoogle) -> None:
    expected = published(google, 2_500, 60.0)
    google.clock.seconds = START + HOUR
    reader = Reader(google, ended=START + 60)
    reader.until_complete()
    assert reported(reader.lines) == expected
    assert [line.time for line in reader.lines] == sorted(line.time for line in reader.lines)
    assert google.clock.seconds == START + HOUR
    assert google.statuses[200] == 3


def test_requests_become_rare_while_nothing_comes(google: FakeGoogle) -> None:
    reader = Reader(google, ended=START + 3 * HOUR)
    while google.clock.seconds < START + HOUR:
        reader.step()
    assert google.statuses[200] < 250


def test_a_quota_that_others_use_up_is_waited_for(google: FakeGoogle) -> None:
    expected = published(google, 3_000, 30.0)
    google.log_faults.others = 60
    reader = Reader(google, ended=START + 30)
    while google.clock.seconds < START + 100:
        reader.step()
    assert (reader.lines, reader.unreachable) == ([], 0)
    assert google.statuses[429] < 15
    while google.clock.seconds < START + 400:
        reader.step()
    assert reader.unreachable > 0
    google.log_faults.others = 0
    reader.until_complete()
    assert reported(reader.lines) == expected


def test_thousands_of_entries_of_one_moment(google: FakeGoogle) -> None:
    for number in range(9_000):
        text = {"textPayload": str(number)}
        google.add(Entry(timestamp(START + 5), f"{number:05}", START + 6, "workerpool0-0", text))
    google.sort()
    reader = Reader(google, ended=START + 20)
    reader.until_complete()
    assert Counter(line.text for line in reader.lines) == Counter(map(str, range(9_000)))


def test_entries_of_the_future_hold_up_nothing(google: FakeGoogle) -> None:
    expected = published(google, 500, 50.0)
    for number in range(5_000):
        text = {"textPayload": f"future {number}"}
        entry = Entry(timestamp(START + HOUR), f"{number}", START + 10, "workerpool0-0", text)
        google.add(entry)
        expected["worker-0", f"future {number}"] += 1
    google.sort()
    google.shows_future = True
    reader = Reader(google, ended=START + 50)
    reader.until_complete(patience=HOUR / 2)
    assert reported(reader.lines) == expected


def test_a_page_token_that_has_expired(google: FakeGoogle) -> None:
    expected = published(google, 2_500, 60.0)
    google.clock.seconds = START + HOUR
    reader = Reader(google, ended=START + 60)
    reader.step()
    google.faults.add(Fault("entries", status=400, code="INVALID_ARGUMENT", message="page_token"))
    reader.until_complete()
    assert reported(reader.lines) == expected


@pytest.mark.parametrize("nonsense", [None, "", "yesterday", "a, b"])
def test_a_wrong_clock_follows_googles(nonsense: str | None) -> None:
    clock = ServerClock()
    clock.correct("Wed, 21 Oct 2015 07:28:00 GMT")
    clock.correct(nonsense)
    assert 0 <= clock.now() - 1_445_412_480 < 60


def test_a_page_that_repeats_does_not_keep_a_log_from_its_end(google: FakeGoogle) -> None:
    def entries(_: Request) -> Reply:
        google.clock.seconds += 1
        return Reply.of({"entries": [], "nextPageToken": "same"})

    [index] = [n for n, each in enumerate(google.routes) if each.name == "entries"]
    google.routes[index] = google.routes[index]._replace(handler=entries)
    Reader(google, START).until_complete(HOUR)
