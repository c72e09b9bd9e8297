"""The part of a job's paid time that went into new steps, and the causes of the rest. Pure.

Times are whole microseconds, so that the parts add up to the whole exactly. Each moment of the job
has one cause. A cause that the records do not show is `unknown`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, Optional

NEW_STEPS = "new_steps"
CAUSES: Mapping[str, str] = {
    NEW_STEPS: "new steps",
    "queue": "queue",
    "machines": "start of machines",
    "image": "image",
    "data": "data",
    "first_step": "first step",
    "checkpoints": "checkpoints",
    "stragglers": "waiting for stragglers",
    "stalls": "stalls",
    "repeated_steps": "repeated steps",
    "end": "end",
    "unknown": "unknown",
}
"""The causes in their order, each with its name for people."""

_STEPS = frozenset({NEW_STEPS, "repeated_steps"})
_PROGRAM = _STEPS | {"first_step", "end", "unknown"}

NO_STEPS = "the log has no steps: give a metric's regex a group `step`"
RENUMBERED = (
    "the numbers of steps begin again within one start, so that rsctl cannot tell new steps from "
    "repeated ones"
)


class Span(NamedTuple):
    """A part of a job's life. `cause` is None while its program runs; `attempt` is its start."""

    start: int
    end: int
    cause: Optional[str]
    paid: bool
    attempt: int = 1


class Step(NamedTuple):
    """A step that the log reports: when, and its number."""

    time: int
    number: int


class Interval(NamedTuple):
    """A time within a job's life."""

    start: int
    end: int


class Wait(NamedTuple):
    """Until this time, which part of a step the ranks waited for a straggler."""

    time: int
    share: float


class Evidence(NamedTuple):
    """The records of the time in which a job's program ran.

    `restarts` are the times when all ranks were started again in place. A stall begins at the
    latest at its `start`, and still lasts at its `end`.
    """

    steps: Sequence[Step] = ()
    restarts: Sequence[int] = ()
    stalls: Sequence[Interval] = ()
    copies: Sequence[Interval] = ()
    checkpoints: Sequence[Interval] = ()
    waits: Sequence[Wait] = ()


class Breakdown(NamedTuple):
    """Microseconds by cause, without causes that took none; `unknown` says why some are unknown."""

    paid: dict[str, int]
    unpaid: dict[str, int]
    unknown: Optional[str]


class _Piece(NamedTuple):
    start: int
    end: int
    cause: str


def break_down(spans: Iterable[Span], evidence: Evidence) -> Breakdown:
    """The causes of a job's time. `spans` are in order, without gaps and overlaps."""
    paid: dict[str, int] = {}
    unpaid: dict[str, int] = {}
    joined = list(_joined(spans))
    reader = _StepReader(evidence, joined)
    for span in joined:
        total = paid if span.paid else unpaid
        for piece in _pieces(span, reader, evidence):
            if piece.end > piece.start:
                total[piece.cause] = total.get(piece.cause, 0) + piece.end - piece.start
    return Breakdown(_ordered(paid), _ordered(unpaid), reader.unknown)


def _joined(spans: Iterable[Span]) -> Iterator[Span]:
    """The spans; those of one start of the program, in which only a message changed, are one."""
    before: Span | None = None
    for span in spans:
        if before is not None and before[2:] == span[2:] and before.end == span.start:
            before = before._replace(end=span.end)
            continue
        if before is not None:
            yield before
        before = span
    if before is not None:
        yield before


def _ordered(found: Mapping[str, int]) -> dict[str, int]:
    return {cause: found[cause] for cause in CAUSES if cause in found}


def _pieces(span: Span, reader: _StepReader, evidence: Evidence) -> list[_Piece]:
    """A span, divided by cause."""
    if span.cause is not None:
        pieces, steps = [_Piece(span.start, span.end, span.cause)], []
    else:
        steps = reader.steps_in(span)
        pieces = list(reader.pieces(span, steps))
    for copy in evidence.copies:
        pieces = _overlaid(pieces, copy, "data", {"first_step", "machines", "unknown"})
    if span.cause is not None:
        return pieces
    for checkpoint in evidence.checkpoints:
        pieces = _overlaid(pieces, checkpoint, "checkpoints", _PROGRAM)
    for stall in evidence.stalls:
        if span.start <= stall.end < span.end:
            pieces = _overlaid(pieces, _whole_stall(stall, span, steps), "stalls", _PROGRAM)
    waits = [wait for wait in evidence.waits if span.start <= wait.time <= span.end]
    return list(_with_waits(pieces, waits))


def _overlaid(
    pieces: Iterable[_Piece], over: Interval, cause: str, causes: Collection[str]
) -> list[_Piece]:
    """The pieces, in which an interval has another cause, where it has one of `causes`."""
    found = []
    for piece in pieces:
        start, end = max(piece.start, over.start), min(piece.end, over.end)
        if start >= end or piece.cause not in causes:
            found.append(piece)
            continue
        found += [
            piece._replace(end=start),
            _Piece(start, end, cause),
            piece._replace(start=end),
        ]
    return found


def _whole_stall(stall: Interval, span: Span, steps: Sequence[Step]) -> Interval:
    """From one usual step after the last step before it, up to the next step."""
    times = [step.time for step in steps]
    following = bisect_right(times, stall.end)
    end = times[following] if following < len(times) else span.end
    if not following:
        return Interval(min(max(span.start, stall.start), stall.end), end)
    from statistics import median  # whose import costs each `submit` 2 ms

    usual = median([after - before for before, after in pairwise(times)] or [0])
    return Interval(min(times[following - 1] + int(usual), stall.end), end)


def _with_waits(pieces: Iterable[_Piece], waits: Sequence[Wait]) -> Iterator[_Piece]:
    """The pieces, in which a part of the new steps is a wait; a report is on the time before it."""
    times = [wait.time for wait in waits]
    for piece in pieces:
        if not waits or piece.cause != NEW_STEPS:
            yield piece
            continue
        first = bisect_right(times, piece.start)
        start = piece.start
        for wait in waits[min(first, len(waits) - 1) :]:
            is_last = wait.time >= piece.end or wait is waits[-1]
            end = piece.end if is_last else wait.time
            middle = start + round((end - start) * wait.share)
            yield _Piece(start, middle, "stragglers")
            yield _Piece(middle, end, NEW_STEPS)
            start = end
            if is_last:
                break


class _StepReader:
    """Tells new steps from repeated ones over all starts of a program, which it takes in order."""

    def __init__(self, evidence: Evidence, spans: Sequence[Span]) -> None:
        self._steps = sorted(evidence.steps)
        self._restarts = sorted(evidence.restarts)
        self._highest: int | None = None
        self._next = 0
        self._has_restarted = False
        running = [span for span in spans if span.cause is None]
        self._last_end = running[-1].end if running else 0
        may_repeat = len(running) > 1 or bool(self._restarts)
        is_renumbered = may_repeat and self._renumbers(running)
        self._is_known = not is_renumbered
        self.unknown = NO_STEPS if not self._steps else RENUMBERED if is_renumbered else None

    def _renumbers(self, running: Iterable[Span]) -> bool:
        """Whether the numbers begin again where the ranks did not."""
        ends = [span.end for span in running]
        starts = [*ends, *self._restarts]
        return any(
            after.number < before.number
            and not any(before.time <= start and start <= after.time for start in starts)
            for before, after in pairwise(self._steps)
        )

    def steps_in(self, span: Span) -> list[Step]:
        """The steps of a span, each number once. Clocks may differ: the next steps that end before
        the span does are its own.
        """
        found: list[Step] = []
        while self._next < len(self._steps):
            step = self._steps[self._next]
            if step.time > span.end and span.end != self._last_end:
                break
            self._next += 1
            if not found or found[-1].number != step.number:
                if not span.start <= step.time <= span.end:
                    step = step._replace(time=min(max(step.time, span.start), span.end))
                found.append(step)
        return found

    def pieces(self, span: Span, steps: Sequence[Step]) -> Iterator[_Piece]:
        """A span in which the program ran, by its steps."""
        if not steps:
            yield _Piece(span.start, span.end, "first_step" if self._steps else "unknown")
            self._has_restarted = True
            return
        yield _Piece(span.start, steps[0].time, "first_step")
        self._reach(steps[0].number)
        new_since = steps[0].time
        for before, after in pairwise(steps):  # a long run has millions
            if after.number > before.number and self._is_plainly_new(before.number):
                self._highest = after.number
                continue
            yield _Piece(new_since, before.time, NEW_STEPS)
            new_since = after.time
            if after.number > before.number:
                yield from self._interval(before, after)
            else:
                yield from self._drop(before, after)
            self._reach(after.number)
        yield _Piece(new_since, steps[-1].time, NEW_STEPS)
        yield _Piece(steps[-1].time, span.end, "end")
        self._has_restarted = True

    def _is_plainly_new(self, number: int) -> bool:
        """Whether all steps after this one are new."""
        if not self._has_restarted:  # the numbers may have begun again
            return True
        return self._is_known and self._highest is not None and number >= self._highest

    def _reach(self, number: int) -> None:
        self._highest = number if self._highest is None else max(self._highest, number)

    def _interval(self, before: Step, after: Step) -> Iterator[_Piece]:
        """The steps between two reports. The repeated ones come first."""
        if not self._is_known and self._has_restarted:
            yield _Piece(before.time, after.time, "unknown")
            return
        highest = before.number if self._highest is None else self._highest
        count = after.number - before.number
        repeated = min(max(highest - before.number, 0), count)
        middle = before.time + (after.time - before.time) * repeated // count
        yield _Piece(before.time, middle, "repeated_steps")
        yield _Piece(middle, after.time, NEW_STEPS)

    def _drop(self, before: Step, after: Step) -> Iterator[_Piece]:
        """A lower number: all ranks were started again, or the numbers begin again."""
        restart = next((time for time in self._restarts if time >= before.time), None)
        if restart is not None:
            self._restarts.remove(restart)
            self._has_restarted = True
            middle = min(restart, after.time)
            yield _Piece(before.time, middle, "end")
            yield _Piece(middle, after.time, "first_step")
        else:
            cause = "unknown" if not self._is_known and self._has_restarted else NEW_STEPS
            yield _Piece(before.time, after.time, cause)
