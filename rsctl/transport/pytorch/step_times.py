"""Step times: when each gradient bucket of a training step is ready, and when it is reduced.

A step begins when the gradients of the step before are reduced, and ends when its own are. So a
step is the optimizer's update, the wait for data, forward and backward pass, in this order, and its
length does not depend on where a script has its loop. With gradient accumulation a step is what
happens between two exchanges of gradients.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import NamedTuple

from rsctl.transport.pytorch.clock import Clock

WARM_UP_STEPS = 5
"""Steps that are not recorded: DDP rebuilds its buckets after the first, caches are cold."""

_KEPT_STEPS = 64


class BucketTimes(NamedTuple):
    """A gradient bucket: its size, and when it is ready and reduced, in seconds of its step."""

    bytes: int
    ready: float
    reduced: float


class TimedStep(NamedTuple):
    """One step: its length and its wait for data in seconds, and its buckets in their order."""

    seconds: float
    data: float
    buckets: tuple[BucketTimes, ...]

    @property
    def exposed(self) -> float:
        """The seconds in which the step waited for the reduction and did nothing else."""
        return max(0.0, max(b.reduced for b in self.buckets) - self.buckets[-1].ready)


@dataclass
class _Pending:
    """A bucket whose reduction may not have ended yet, by moments of a clock."""

    bytes: int
    ready: object
    reduced: object | None = None


@dataclass
class _Unread:
    """A step as events of a clock, read later so that no thread waits for a GPU meanwhile."""

    before: list[_Pending]
    data: float
    buckets: list[_Pending]


class StepTimes:
    """The last steps of a training process, recorded bucket by bucket.

    `data_seconds` is how long the process has waited for data so far; the code that waits adds to
    it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._unread: deque[_Unread] = deque(maxlen=_KEPT_STEPS)
        self._open: list[_Pending] = []
        self._before: list[_Pending] = []
        self._data_before = 0.0
        self._seen = 0
        self._use = MachineUse()
        self.data_seconds = 0.0

    @property
    def recorded(self) -> int:
        """How many steps have been recorded, those that are no longer kept included."""
        return max(0, self._seen - WARM_UP_STEPS)

    def bucket_ready(self, size: int, is_last: bool) -> _Pending:
        """A bucket of so many bytes has its gradients; it is the last of its step or not."""
        pending = _Pending(size, self._clock.moment())
        self._open.append(pending)
        if is_last:
            self._end_step()
        return pending

    def bucket_reduced(self, pending: _Pending) -> None:
        """A bucket is reduced."""
        pending.reduced = self._clock.moment()

    def steps(self) -> list[TimedStep]:
        """The recorded steps with the buckets of the last of them, as far as their end is known."""
        complete = [step for step in list(self._unread) if _is_complete(step)]
        layout = [b.bytes for b in complete[-1].buckets] if complete else []
        return [self._read(s) for s in complete if [b.bytes for b in s.buckets] == layout]

    def machine_use(self) -> dict[str, float | None]:
        """Since the warm-up: the cores that this process kept busy, and the part of the time in
        which its first thread waited for a core that others used. None if that is unknown.
        """
        return self._use.fields()

    def _end_step(self) -> None:
        self._seen += 1
        if self._seen == WARM_UP_STEPS:
            self._use = MachineUse()
        if self._seen > WARM_UP_STEPS:
            data = self.data_seconds - self._data_before
            self._unread.append(_Unread(self._before, data, self._open))
        self._before, self._open = self._open, []
        self._data_before = self.data_seconds

    def _read(self, step: _Unread) -> TimedStep:
        first = step.before[0].reduced
        begin = max(self._clock.seconds(first, bucket.reduced) for bucket in step.before)
        buckets = tuple(
            BucketTimes(
                bucket.bytes,
                self._clock.seconds(first, bucket.ready) - begin,
                self._clock.seconds(first, bucket.reduced) - begin,
            )
            for bucket in step.buckets
        )
        return TimedStep(max(bucket.reduced for bucket in buckets), step.data, buckets)


class MachineUse:
    """The processor time of this process from the creation of this object on."""

    def __init__(self) -> None:
        self._begin = _use()

    def fields(self) -> dict[str, float | None]:
        """`cores` and `queued` of a `steps` line."""
        wall, cpu, queued = (
            None if now is None or before is None else now - before
            for now, before in zip(_use(), self._begin, strict=True)
        )
        return {
            "cores": round(cpu / wall, 3) if wall and cpu is not None else None,
            "queued": round(queued / wall, 3) if wall and queued is not None else None,
        }


def _use() -> tuple[float, float, float | None]:
    """Seconds of the clock, of all threads on cores, and of the first one waiting for a core.

    The last is the second number of /proc/PID/schedstat (Documentation/scheduler/sched-stats.rst of
    Linux).
    """
    try:
        with open("/proc/self/schedstat") as file:
            queued = int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return time.perf_counter(), time.process_time(), None
    return time.perf_counter(), time.process_time(), queued


def _is_complete(step: _Unread) -> bool:
    return all(bucket.reduced is not None for bucket in step.before + step.buckets)


def summary(steps: Sequence[TimedStep]) -> dict[str, object]:
    """The fields of a `steps` line but its buckets: medians over the steps, in seconds.

    `compute` is a step less the time in which it waited for the reduction alone; `low` and `high`
    are the quartiles of `seconds`.
    """
    lengths = [step.seconds for step in steps]
    low, _, high = quantiles(lengths, n=4, method="inclusive") if len(lengths) > 1 else lengths * 3
    return {
        "steps": len(steps),
        "seconds": round(median(lengths), 6),
        "low": round(low, 6),
        "high": round(high, 6),
        "compute": round(median(step.seconds - step.exposed for step in steps), 6),
        "data": round(median(step.data for step in steps), 6),
    }


def median_buckets(steps: Sequence[TimedStep]) -> list[tuple[int, float, float]]:
    """For each bucket its bytes, and the medians of when it is ready and reduced."""
    return [
        (
            column[0].bytes,
            round(median(bucket.ready for bucket in column), 6),
            round(median(bucket.reduced for bucket in column), 6),
        )
        for column in zip(*(step.buckets for step in steps), strict=True)
    ]
