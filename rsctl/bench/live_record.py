"""A bench in progress: its stored record, and the changes that this process writes to it."""

from __future__ import annotations

from rsctl.bench.packed import Pack, packs_of, trials_in
from rsctl.bench.records import Benches, BenchRecord, Trial
from rsctl.bench.schedule import Slot, TrialKeys, pending, unsuccessful
from rsctl.findings import ExitCode, JobState, RsctlError, error
from rsctl.runs.store import Store
from rsctl.runs.stream.events import now


class CurrentBench:
    """The record of a bench, read again by `reload`.

    `retried` are the trials that are repeated because they had ended badly when this process began.
    """

    def __init__(self, store: Store, bench: BenchRecord) -> None:
        self.store, self.benches = store, Benches(store)
        self.record = bench
        self.retried: TrialKeys = unsuccessful(bench)

    def reload(self) -> BenchRecord:
        """The current record. Raises RsctlError if it was removed."""
        stored = self.benches.get(self.record.bench)
        if stored is None:
            finding = error("bench", f"{self.record.bench} was forgotten while it ran")
            raise RsctlError(ExitCode.USAGE, finding)
        self.record = stored
        return stored

    def unfinished(self) -> list[Trial]:
        """The trials that were begun and have not ended; slots as their whole packed jobs."""
        latest = list(self.record.latest().values())
        return [
            trial
            for trial in packs_of(self.record.trials)
            if (isinstance(trial, Pack) or trial in latest)
            and not all(one.state.is_final for one in trials_in(trial))
        ]

    def pending(self) -> list[Slot]:
        """The remaining runs, in order."""
        return pending(self.record, self.retried)

    def retry(self, trial: Trial) -> None:
        """Repeat a trial that has ended badly."""
        self.retried |= {trial.key}

    def note(self, trial: Trial) -> None:
        """Record a trial's state; the slots of a packed job have states of their own."""
        if not isinstance(trial, Pack):
            self.benches.note(self.record.bench, trial)

    def conclude(self, trial: Trial, state: JobState, code: int, reason: str | None) -> None:
        """Record a trial's end, here and in the record, which may have been read again since."""
        for known in (trial, *(other for other in self.record.trials if other.run == trial.run)):
            known.state, known.exit_code, known.reason = state, code, reason
        self.note(trial)

    def drop(self, trial: Trial) -> None:
        """Remove a trial that has not run."""
        self.benches.drop(self.record.bench, trial)
        self.record.trials = [one for one in self.record.trials if one.run != trial.run]

    def add_image(self, tag: str, reference: str) -> None:
        """Record by which reference the image of a tag is submitted from now on."""
        self.benches.have_image(self.record.bench, tag, reference)
        self.record.images[tag] = reference

    def enter(self, state: JobState) -> None:
        """Record that the bench is in a state from now on."""
        self.benches.enter(self.record.bench, state, now() if state.is_final else None)
        self.record.state = state
