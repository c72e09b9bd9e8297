"""The lines of a packed job by slot, and the slots that have ended."""

from __future__ import annotations

import itertools

from rsctl.bench.pack_progress import PackProgress
from rsctl.bench.packed import make_pack
from rsctl.bench.records import Trial
from rsctl.findings import error
from rsctl.node.structured_lines import line, lock_of
from rsctl.runs.stream.events import FindingEvent, LogEvent

from .conftest import at


class Replica:
    """The log of a replica, with valid marks."""

    def __init__(self, name: str) -> None:
        self._name, self._ids = name, itertools.count()
        self._keys = ["0" * 32]
        while len(self._keys) < 5:
            self._keys.append(lock_of(self._keys[-1]))

    def says(self, text: str) -> LogEvent:
        """A line."""
        return LogEvent(at(1), self._name, str(next(self._ids)), "stdout", text)

    def starts(self) -> LogEvent:
        """The line before the marks of all slots."""
        return self._structured("slots", {"lock": self._keys.pop()})

    def marks(self, slot: int, state: str) -> LogEvent:
        """The next mark, that a slot has "began" or "ended"."""
        about = {"number": slot, "state": state, "code": 0, "key": self._keys.pop()}
        return self._structured("slot", about)

    def _structured(self, kind: str, about: dict[str, object]) -> LogEvent:
        return self.says(line(kind, about).decode().strip())


def progress_of(*slots: int) -> PackProgress:
    """The progress of a packed job that has these slots."""
    trials = [Trial(cell=0, repetition=slot, run=f"job-aaaaaa-s{slot}") for slot in slots]
    return PackProgress(make_pack("job-aaaaaa", trials))


def shown(progress: PackProgress, *events: LogEvent | FindingEvent) -> list[str]:
    """Each line and finding except for the marks, after the number of its slot."""
    return [
        f"{trial.repetition} {text}"
        for trial, part in progress.take(events)
        for event in part
        if (text := event.text if isinstance(event, LogEvent) else event.finding.code)[0] != "{"
    ]


def test_a_line_belongs_to_the_slot_that_its_worker_runs() -> None:
    """Lines before the first mark belong to the first slot. Lines of a replica without marks, such
    as a reducer, and findings about the job belong to the newest slot.
    """
    one, two, reducer = Replica("worker-0"), Replica("worker-1"), Replica("reducer-0")
    progress = progress_of(0, 1)
    assert shown(progress, one.says("prepares"), reducer.says("listens")) == [
        *("0 prepares", "0 listens"),
    ]
    begin = [each for worker in (one, two) for each in (worker.starts(), worker.marks(0, "began"))]
    assert shown(progress, *begin, one.marks(0, "ended"), one.marks(1, "began")) == []
    stall = FindingEvent(time=at(1), finding=error("stall", "no rank continues"))
    later = (two.says("a"), one.says("b"), reducer.says("c"), stall, two.says("d"))
    assert shown(progress, *later) == ["0 a", "1 b", "1 c", "1 stall", "0 d"]


def test_a_slot_has_ended_when_all_its_workers_have() -> None:
    one, two = Replica("worker-0"), Replica("worker-1")
    progress = progress_of(0, 1)
    shown(progress, *(each for of in (one, two) for each in (of.starts(), of.marks(0, "began"))))
    shown(progress, one.marks(0, "ended"), one.marks(1, "began"))
    assert (progress.ends(workers=2), progress.has_begun) == ([], {0, 1})
    shown(progress, two.marks(0, "ended"))
    assert [(e.slot, [*e.began], [*e.ended]) for e in progress.ends(workers=2)] == [
        (0, ["worker-0", "worker-1"], ["worker-0", "worker-1"]),
    ]


def test_the_next_driver_shows_the_slots_that_it_follows() -> None:
    """The slot that an earlier driver has recorded is not one of them."""
    worker, progress = Replica("worker-0"), progress_of(1)
    earlier = (worker.starts(), worker.marks(0, "began"), worker.says("a"))
    now = (worker.marks(0, "ended"), worker.marks(1, "began"), worker.says("b"))
    assert shown(progress, *earlier, *now) == ["1 b"]
