"""The log of training jobs as CloudWatch Logs gives it, on good days and bad ones."""

from __future__ import annotations

import time
from typing import Any

import pytest

from rsctl.targets.sagemaker.emulator import Behaviour
from tests.kit.polling import wait_until
from tests.targets.sagemaker.emulator.conftest import GROUP, Account, groups, refused

PREFIX = "j/"
HOUR = 3_600_000
NOW = int(time.time() * 1000)
MISSING = ("ResourceNotFoundException", "The specified log group does not exist.")
THROTTLED = ("ThrottlingException", "Rate exceeded")
NO_TOKEN = ("InvalidParameterException", "The specified nextToken is invalid.")


@pytest.fixture
def behaviour() -> Behaviour:
    """Events can be read at once."""
    return Behaviour(pace=0.0005, ingest=0.0, log_reads=100_000, stream_reads=100_000)


def write(account: Account, count: int, stream: str = "j/algo-1-1", start: int = NOW) -> None:
    for number in range(count):
        account.emulator.log_store.write(stream, f"line {number}", start + number)


def texts(account: Account, **wanted: Any) -> list[str]:
    found = account.events(logStreamNamePrefix=PREFIX, **wanted)
    return [event["message"] for event in found]


def test_the_group_comes_with_the_first_line(account: Account) -> None:
    nodes = account.start(ResourceConfig=groups(workers=2))
    wanted = {"logGroupName": GROUP}
    assert refused(account.logs.filter_log_events, **wanted) == MISSING
    assert refused(account.logs.describe_log_streams, **wanted) == MISSING
    assert account.logs.describe_log_groups()["logGroups"] == []
    before = int(time.time() * 1000)
    nodes.say("algo-2", "hello")
    (event,) = wait_until(lambda: account.events(logStreamNamePrefix=PREFIX))
    assert before <= event["timestamp"] <= event["ingestionTime"]
    assert event["message"] == "hello"
    (stream,) = account.logs.describe_log_streams(**wanted)["logStreams"]
    assert stream["logStreamName"] == event["logStreamName"]
    name, _, epoch = event["logStreamName"].rpartition("-")
    assert (name, abs(int(epoch) - before / 1000) < 60) == ("j/algo-2", True)
    assert len(account.logs.describe_log_groups(logGroupNamePrefix="/aws")["logGroups"]) == 1


def test_events_come_by_time_across_streams(account: Account) -> None:
    book = account.emulator.log_store
    book.write("j/algo-2-1", "second", NOW + 2)
    book.write("j/algo-1-1", "third", NOW + 3)
    book.write("j/algo-1-1", "first", NOW + 1)
    book.write("other/algo-1-1", "another's", NOW)
    book.write("j/algo-1-1", "", NOW + 4)
    assert texts(account) == ["first", "second", "third", " "]
    assert texts(account, startTime=NOW + 2, endTime=NOW + 3) == ["second", "third"]
    assert texts(account, filterPattern="ir first") == ["first"]
    assert texts(account, limit=1) == ["first", "second", "third", " "]
    both = {"logGroupName": GROUP, "logStreamNames": ["j/algo-1-1"], "logStreamNamePrefix": "j"}
    assert refused(account.logs.filter_log_events, **both)[0] == "InvalidParameterException"
    pattern = {"logGroupName": GROUP, "filterPattern": "{ $.x = 1 }"}
    assert refused(account.logs.filter_log_events, **pattern)[0] == "InvalidParameterException"


def test_a_flood_is_read_to_its_end(account: Account) -> None:
    for host in range(1, 5):
        write(account, 10_000, f"j/algo-{host}-1")
    found = account.events(logStreamNamePrefix=PREFIX)
    assert len({event["eventId"] for event in found}) == len(found) == 40_000
    times = [event["timestamp"] for event in found]
    assert times == sorted(times)


def test_a_page_has_at_most_a_megabyte(account: Account) -> None:
    for number in range(6):
        account.emulator.log_store.write("j/algo-1-1", str(number) * 300_000, NOW + number)
    page = account.logs.filter_log_events(logGroupName=GROUP)
    assert len(page["events"]) == 3
    assert len(account.events(logStreamNamePrefix=PREFIX)) == 6


def test_late_events_are_not_there_yet(account: Account, behaviour: Behaviour) -> None:
    behaviour.late_every, behaviour.late_by = 2, 1e6
    write(account, 6)
    assert texts(account) == ["line 0", "line 2", "line 4"]
    behaviour.late_by = 0.0
    account.emulator.log_store.write("j/algo-1-2", "late no more", NOW + 9)
    account.emulator.log_store.write("j/algo-1-2", "late no more", NOW + 9)
    assert texts(account)[3:] == ["late no more", "late no more"]


def test_events_come_twice_and_in_any_order(account: Account, behaviour: Behaviour) -> None:
    behaviour.twice_every, behaviour.shuffle = 3, True
    write(account, 300)
    found = [event["eventId"] for event in account.events(logStreamNamePrefix=PREFIX)]
    assert (len(found), len(set(found))) == (400, 300)
    assert found != sorted(found)


def test_pages_may_be_empty(account: Account, behaviour: Behaviour) -> None:
    behaviour.empty_every = 2
    write(account, 10)
    pages, wanted = [], {"logGroupName": GROUP, "limit": 4}
    while True:
        page = account.logs.filter_log_events(**wanted)
        pages.append(len(page["events"]))
        if "nextToken" not in page:
            break
        wanted["nextToken"] = page["nextToken"]
    assert pages == [4, 0, 4, 0, 2]


def test_tokens_are_of_one_query_and_run_out(account: Account, behaviour: Behaviour) -> None:
    write(account, 3)
    read = account.logs.filter_log_events
    token = read(logGroupName=GROUP, limit=1)["nextToken"]
    assert read(logGroupName=GROUP, nextToken=token)["events"][0]["message"] == "line 1"
    for wrong in ({"startTime": 1, "nextToken": token}, {"nextToken": "made up"}):
        assert refused(read, logGroupName=GROUP, **wrong) == NO_TOKEN
    behaviour.token_life = 0.0
    assert refused(read, logGroupName=GROUP, nextToken=token) == NO_TOKEN


def test_more_than_five_requests_are_too_many(account: Account, behaviour: Behaviour) -> None:
    write(account, 1)
    behaviour.log_reads, behaviour.pace = 5, 1e6
    read = account.logs.filter_log_events
    for _ in range(5):
        read(logGroupName=GROUP)
    assert refused(read, logGroupName=GROUP) == THROTTLED
    behaviour.pace = 0.0
    read(logGroupName=GROUP)


def test_more_streams_than_a_page_has(account: Account) -> None:
    for host in range(1, 121):
        account.emulator.log_store.write(f"j/algo-{host}-1", "up", NOW + 200 - host)
    pages = account.logs.get_paginator("describe_log_streams")
    found = [
        [stream["logStreamName"] for stream in page["logStreams"]]
        for page in pages.paginate(logGroupName=GROUP, logStreamNamePrefix=PREFIX)
    ]
    assert [len(page) for page in found] == [50, 50, 20]
    names = [name for page in found for name in page]
    assert names == sorted(f"j/algo-{host}-1" for host in range(1, 121))
    newest = account.logs.describe_log_streams(
        logGroupName=GROUP, orderBy="LastEventTime", descending=True, limit=1
    )
    assert newest["logStreams"][0]["logStreamName"] == "j/algo-1-1"
    assert len(texts(account)) == 120


def test_one_stream_forwards_and_backwards(account: Account) -> None:
    write(account, 5)
    place = {"logGroupName": GROUP, "logStreamName": "j/algo-1-1", "limit": 2}

    def read(**more: Any) -> tuple[list[str], str, str]:
        page = account.logs.get_log_events(**place, **more)
        said = [event["message"] for event in page["events"]]
        return said, page["nextForwardToken"], page["nextBackwardToken"]

    first, forward, _ = read(startFromHead=True)
    second, forward, _ = read(startFromHead=True, nextToken=forward)
    third, last, _ = read(startFromHead=True, nextToken=forward)
    assert (first, second, third) == (["line 0", "line 1"], ["line 2", "line 3"], ["line 4"])
    assert read(startFromHead=True, nextToken=last)[:2] == ([], last)
    account.emulator.log_store.write("j/algo-1-1", "more", NOW + 9)
    assert read(nextToken=last)[0] == ["more"]
    tail, _, backward = read()
    assert tail == ["line 4", "more"]
    assert read(nextToken=backward)[0] == ["line 2", "line 3"]
    assert refused(account.logs.get_log_events, nextToken="x", **place) == NO_TOKEN
    place["logStreamName"] = "j/algo-9-1"
    assert refused(account.logs.get_log_events, **place) == (
        "ResourceNotFoundException",
        "The specified log stream does not exist.",
    )
