"""Whose line it is: by number, by what the runtime tells, or by a guess that stays the same."""

from __future__ import annotations

import json

from .fake_logs import Clock, Entry, FakeLogs
from .reading import GROUPS, JOB, UNIFORM, Reader, node


class Writer:
    """Writes lines into streams, at the clock's time."""

    def __init__(self, logs: FakeLogs) -> None:
        self.logs = logs
        self.number = 0

    def write(self, host: int, *texts: str, epoch: int = 1) -> None:
        now = self.logs.clock.now
        stream = f"{JOB}/algo-{host}-{epoch}"
        entries = []
        for text in texts:
            self.number += 1
            moment = int(now * 1000) + self.number
            entries.append(Entry(moment, self.number, stream, text, now))
        self.logs.put(entries)


def test_hosts_of_one_group_are_workers_by_number(logs: FakeLogs, clock: Clock) -> None:
    """The first line is given at once, though other machines have not begun or never do."""
    writer, reader = Writer(logs), Reader(clock, UNIFORM)
    writer.write(3, "only I am here")
    assert reader.said(0.2) == [("worker-2", "only I am here")]
    writer.write(1, node("worker-3", host="algo-1"), "first")
    assert reader.said(5)[1] == ("worker-0", "first")
    writer.write(9, "a machine more than there are")
    assert reader.said(5) == [("worker-3", "a machine more than there are")]


def test_hosts_of_groups_tell_who_they_are(logs: FakeLogs, clock: Clock) -> None:
    writer, reader = Writer(logs), Reader(clock, GROUPS)
    writer.write(3, node("worker-0", host="algo-3"), "a")
    writer.write(1, node("reducer-1", host="127.0.1.1"), "b")
    found = reader.said(2)
    assert [said for said in found if not said[1].startswith("{")] == [
        ("worker-0", "a"),
        ("reducer-1", "b"),
    ]
    assert reader.hosts.by_host() == {3: "worker-0", 1: "reducer-1"}


def test_lines_before_the_telling_one_wait_for_it(logs: FakeLogs, clock: Clock) -> None:
    writer, reader = Writer(logs), Reader(clock, GROUPS)
    writer.write(2, "from the image's own entrypoint")
    assert reader.said(8) == []
    writer.write(2, node("reducer-0"))
    assert reader.said(8) == [
        ("reducer-0", "from the image's own entrypoint"),
        ("reducer-0", node("reducer-0")),
    ]
    assert reader.hosts.guessed() == {}


def test_a_new_stream_of_a_host_begins_anew(logs: FakeLogs, clock: Clock) -> None:
    """After a spot interruption machines may have changed their places."""
    writer, reader = Writer(logs), Reader(clock, GROUPS)
    writer.write(1, node("worker-0"), "one", epoch=1)
    reader.said(5)
    writer.write(1, node("reducer-0"), "two", epoch=2)
    writer.write(1, "late", epoch=1)
    assert sorted(reader.said(8), key=str)[:2] == [
        ("reducer-0", "two"),
        ("reducer-0", node("reducer-0")),
    ]
    writer.write(1, "later still", epoch=1)
    assert reader.said(8) == [("worker-0", "later still")]


def test_only_the_first_word_of_a_stream_counts(logs: FakeLogs, clock: Clock) -> None:
    """What a script prints cannot move its lines to another replica."""
    writer, reader = Writer(logs), Reader(clock, GROUPS)
    writer.write(1, node("worker-9"), node("worker-1", host="algo-2"), node("worker-0"))
    writer.write(1, node("reducer-0"), "mine")
    assert {replica for replica, _ in reader.said(5)} == {"worker-0"}


def test_foreign_images_are_named_by_a_guess_that_stays(logs: FakeLogs, clock: Clock) -> None:
    writer, reader = Writer(logs), Reader(clock, GROUPS)
    writer.write(4, "four")
    writer.write(2, "two")
    assert reader.said(15) == []
    assert reader.said(60) == [("reducer-1", "four"), ("worker-1", "two")]
    writer.write(4, "again")
    assert reader.said(8) == [("reducer-1", "again")]
    assert reader.hosts.guessed() == {"algo-2": "worker-1", "algo-4": "reducer-1"}
    later = Reader(clock, GROUPS, json.loads(json.dumps(reader.log.cursor())))
    writer.write(4, "to another reader")
    assert later.said(2) == [("reducer-1", "to another reader")]


def test_a_guess_leaves_out_the_names_that_are_known(logs: FakeLogs, clock: Clock) -> None:
    writer, reader = Writer(logs), Reader(clock, GROUPS)
    writer.write(1, node("reducer-1"))
    writer.write(2, node("worker-1"))
    writer.write(3, node("reducer-0"))
    writer.write(4, "the only one left")
    assert reader.said(70)[-1] == ("worker-0", "the only one left")


def test_a_host_that_is_more_than_there_are_has_one_of_the_names(
    logs: FakeLogs, clock: Clock
) -> None:
    """A machine with a number beyond the job's has told a name: one is left for two hosts."""
    writer, reader = Writer(logs), Reader(clock, GROUPS)
    for host, name in ((9, "worker-0"), (1, "worker-1"), (2, "reducer-0")):
        writer.write(host, node(name))
    writer.write(4, "four")
    assert reader.said(70)[-1] == ("reducer-1", "four")


def test_a_guess_is_taken_back_when_the_host_tells(logs: FakeLogs, clock: Clock) -> None:
    writer, reader = Writer(logs), Reader(clock, GROUPS)
    writer.write(1, "early")
    assert reader.said(70) == [("worker-0", "early")]
    writer.write(1, node("reducer-0"), "known")
    assert reader.said(8)[-1] == ("reducer-0", "known")
    assert reader.hosts.guessed() == {}


def test_many_lines_do_not_wait(logs: FakeLogs, clock: Clock) -> None:
    writer, reader = Writer(logs), Reader(clock, GROUPS)
    writer.write(2, *(f"line {index}" for index in range(2100)))
    assert len(reader.said(3)) == 2100
