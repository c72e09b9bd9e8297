"""The data that a view of a bench shows: runs, events, samples, findings."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from rsctl.bench.records import BenchRecord, Trial
from rsctl.bench.samples import Sample
from rsctl.findings import Finding
from rsctl.images.events import Show
from rsctl.runs.store import RunRecord
from rsctl.runs.stream.events import Event


class BenchObserver(Protocol):
    """Shows a bench; all methods are called in one thread."""

    def begin(self, bench: BenchRecord, todo: int, is_driven: bool) -> None:
        """The bench is taken up; so many runs are left to do, by another process if driven."""

    def building(self) -> AbstractContextManager[Show]:
        """An image is about to be looked up, and built if it does not exist."""
        ...

    def submitted(self, trial: Trial) -> None:
        """A run has been started, or is found going."""

    def events(self, trial: Trial, events: list[Event]) -> None:
        """The new content of a run's folder: log lines, states, findings."""

    def ended(self, trial: Trial, run: RunRecord | None, samples: Mapping[str, Sample]) -> None:
        """A run has ended, and all of it is here; None if it was not submitted."""

    def finding(self, finding: Finding) -> None:
        """Something about the bench itself."""

    def tick(self, bench: BenchRecord) -> None:
        """Time has passed: some ten times a second."""


class NullObserver:
    """Shows nothing."""

    def begin(self, bench: BenchRecord, todo: int, is_driven: bool) -> None:
        """See BenchObserver."""

    def building(self) -> AbstractContextManager[Show]:
        """See BenchObserver."""
        return nullcontext(lambda _event: None)

    def submitted(self, trial: Trial) -> None:
        """See BenchObserver."""

    def events(self, trial: Trial, events: list[Event]) -> None:
        """See BenchObserver."""

    def ended(self, trial: Trial, run: RunRecord | None, samples: Mapping[str, Sample]) -> None:
        """See BenchObserver."""

    def finding(self, finding: Finding) -> None:
        """See BenchObserver."""

    def tick(self, bench: BenchRecord) -> None:
        """See BenchObserver."""
