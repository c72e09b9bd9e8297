"""Selects the runs and benches that have ended and are old enough. Removes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rsctl.api.prune.items import Item, Kept, PruneLimits
from rsctl.api.prune.uses import used_runs
from rsctl.bench.baseline_files import is_location
from rsctl.bench.folder import BenchFolder
from rsctl.bench.records import Benches, BenchRecord
from rsctl.runs import emulator
from rsctl.runs.disk_use import disk_use
from rsctl.runs.final_state import with_final_state
from rsctl.runs.folder import RunFolder
from rsctl.runs.forget import RESULTS
from rsctl.runs.home import run_directory
from rsctl.runs.store import RunRecord, Store

_BUSY = "it is in use: a process reads its log, or its emulator is running"


class Selection:
    """The runs and benches of a store, sorted into removed and kept ones.

    A bench is removed with all of its runs, or not at all: the rest could not be compared, and
    `bench run` would consider it measured. What a kept run or bench uses is kept: its baseline, and
    a run from whose folder it reads, as one that resumes from its checkpoints. Raises StoreError.
    """

    def __init__(self, store: Store, limits: PruneLimits) -> None:
        self.kept: list[Kept] = []
        self._limits = limits
        self._sizes = store.disk_uses()
        self._benches = Benches(store).benches()
        self._runs = {run.run: with_final_state(run) for run in store.runs()}
        self._uses_of: dict[str, set[str]] = {}
        self._newest = set(list(self._runs)[: limits.newest])
        of_benches = {run for bench in self._benches for run in bench.all_runs}
        benches = [bench for bench in self._benches if self._goes_bench(bench)]
        runs = [r for r in self._runs.values() if r.run not in of_benches and self._goes(r)]
        benches, runs = self._without_used(benches, runs)
        self.items = [
            *(self._bench_item(bench) for bench in benches),
            *(self._run_item(run) for run in runs),
        ]

    @property
    def kept_runs(self) -> list[RunRecord]:
        """The runs that stay."""
        gone = {name for item in self.items for name in (item.name, *item.runs)}
        return [run for name, run in self._runs.items() if name not in gone]

    @property
    def kept_benches(self) -> list[BenchRecord]:
        """The benches that stay."""
        gone = {item.name for item in self.items}
        return [bench for bench in self._benches if bench.bench not in gone]

    def _goes(self, run: RunRecord) -> bool:
        if not self._is_past(run):
            return False
        reason = _why_kept(run)
        if reason is not None:
            self.kept.append(Kept(run.run, reason))
        return reason is None

    def _is_past(self, run: RunRecord) -> bool:
        is_old = run.state.is_final and self._limits.is_past(run.ended or run.created)
        return is_old and run.run not in self._newest

    def _goes_bench(self, bench: BenchRecord) -> bool:
        runs = self._runs_of(bench)
        if not self._limits.is_past(bench.ended or bench.created):
            return False
        if not all(map(self._is_past, runs)):
            return False
        try:
            if BenchFolder(bench.bench).is_driven():
                return False
        except OSError as problem:
            self.kept.append(Kept(bench.bench, _unusable(problem)))
            return False
        if not bench.state.is_final:
            remedy = f"cancel it: rsctl bench cancel {bench.bench}"
            self.kept.append(Kept(bench.bench, f"it is incomplete; {remedy}"))
            return False
        busy = next(((r.run, why) for r in runs if (why := _why_kept(r))), None)
        if busy:
            self.kept.append(Kept(bench.bench, f"of its run {busy[0]}: {busy[1]}"))
        return busy is None

    def _runs_of(self, bench: BenchRecord) -> list[RunRecord]:
        return [self._runs[run] for run in sorted(bench.all_runs) if run in self._runs]

    def _without_used(
        self, benches: list[BenchRecord], runs: list[RunRecord]
    ) -> tuple[list[BenchRecord], list[RunRecord]]:
        """Keep what kept runs and benches use; repeat, because that uses something too."""
        while True:
            found = {**self._used_runs(benches, runs), **self._baselines(benches, runs)}
            if not found:
                return benches, runs
            self.kept += [Kept(name, reason) for name, reason in found.items()]
            benches = [bench for bench in benches if bench.bench not in found]
            runs = [run for run in runs if run.run not in found]

    def _baselines(self, benches: list[BenchRecord], runs: list[RunRecord]) -> dict[str, str]:
        """The baselines of kept benches among these, and the reason to keep each."""
        going = {bench.bench for bench in benches}
        kept = {
            reference: bench.bench
            for bench in self._benches
            if bench.bench not in going
            for reference in _baselines(bench)
        }
        return {
            name: f"it is the baseline of {kept[reference]}"
            for name in (*going, *(run.run for run in runs))
            for reference in kept
            if name.startswith(reference)
        }

    def _used_runs(self, benches: list[BenchRecord], runs: list[RunRecord]) -> dict[str, str]:
        """The items into whose folders kept ones point, and the reason to keep each."""
        owners = {run.run: run.run for run in runs}
        owners |= {run: bench.bench for bench in benches for run in bench.all_runs}
        going = {bench.bench for bench in benches}
        users = {
            b.bench: self._uses(b.bench, b.spec) for b in self._benches if b.bench not in going
        }
        users |= {r: self._uses(r, run.plan) for r, run in self._runs.items() if r not in owners}
        return {
            owners[used]: f"{user} uses its files in {run_directory(used)}"
            for user, all_used in users.items()
            for used in sorted(all_used)
            if used in owners
        }

    def _uses(self, user: str, value: Mapping[str, Any]) -> set[str]:
        """The runs into whose folders a plan or spec points."""
        if user not in self._uses_of:
            self._uses_of[user] = used_runs(value, self._limits.has_results) - {user}
        return self._uses_of[user]

    @property
    def kept_uses(self) -> dict[str, str]:
        """The runs into whose folders those that stay point, each with one that does."""
        named = [(run.run, run.plan) for run in self.kept_runs]
        named += [(bench.bench, bench.spec) for bench in self.kept_benches]
        return {used: name for name, value in named for used in self._uses(name, value)}

    def _bench_item(self, bench: BenchRecord) -> Item:
        runs = [run.run for run in self._runs_of(bench)]
        size = disk_use(BenchFolder(bench.bench).path) + sum(map(self._size, runs))
        ended = bench.ended or bench.created
        return Item(
            kind="bench", name=bench.bench, size=size, state=bench.state, ended=ended, runs=runs
        )

    def _run_item(self, run: RunRecord) -> Item:
        ended = run.ended or run.created
        size = self._size(run.run)
        return Item(kind="run", name=run.run, size=size, state=run.state, ended=ended)

    def _size(self, run: str) -> int:
        kept = () if self._limits.has_results else RESULTS
        return disk_use(RunFolder(run).path, kept) + self._sizes.get(run, 0)


def has_ended(store: Store, run: str) -> bool:
    """Whether a run has ended and no process uses it, looked up again. Raises StoreError."""
    record = store.get(run)
    return record is None or (with_final_state(record).state.is_final and not _why_busy(run))


def _why_kept(run: RunRecord) -> str | None:
    """Why an old run cannot be removed; None if it can."""
    from rsctl.results.tracking.background import lacking

    if busy := _why_busy(run.run):
        return busy
    return "; ".join(lacking(run) or ()) or None


def _why_busy(run: str) -> str | None:
    """Why a run cannot be removed now; None if it can."""
    folder = RunFolder(run)
    try:
        is_busy = folder.path.is_dir() and (folder.is_supervised() or emulator.is_alive(run))
    except OSError as problem:
        return _unusable(problem)
    return _BUSY if is_busy else None


def _unusable(problem: OSError) -> str:
    return f"cannot use {problem.filename}: {problem.strerror}"


def _baselines(bench: BenchRecord) -> Iterator[str]:
    """The references to runs and benches that a bench has as its baselines."""
    gate = bench.spec.get("gate")
    reference = gate.get("baseline") if isinstance(gate, dict) else None
    if isinstance(reference, str) and reference not in ("", "@last") and not is_location(reference):
        yield reference
