"""The order of a bench's runs: interleaved over cells, and balanced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rsctl.bench.records import BenchRecord, Trial
from rsctl.findings import JobState
from rsctl.runs.ids import packed_job

Slot = tuple[int, int]
"""One repetition of one cell: the numbers of both, from 0."""

TrialKeys = frozenset[tuple[int, int, int]]
"""Keys of trials: cell, repetition and attempt."""


def all_slots(cells: int, repeat: int) -> Iterator[Slot]:
    """A B C, C B A, A B C …: what drifts with time meets all cells alike."""
    for repetition in range(repeat):
        row = range(cells) if repetition % 2 == 0 else reversed(range(cells))
        yield from ((cell, repetition) for cell in row)


def paired_slots(cells: int, repeat: int) -> Iterator[Slot]:
    """A B, B A, B A, A B, …: cells in the order of Thue and Morse, by repetition.

    Each two repetitions are mirrored, so that a steady drift has the same sum on both sides, and
    each four are mirrored again, so that a drift that grows has, too.
    """
    for repetition in range(repeat):
        is_first = repetition.bit_count() % 2 == 0
        row = range(cells) if is_first else reversed(range(cells))
        yield from ((cell, repetition) for cell in row)


def unsuccessful(bench: BenchRecord) -> TrialKeys:
    """The trials that have ended in any other way than with success."""
    return frozenset(
        trial.key
        for trial in bench.latest().values()
        if trial.state.is_final and trial.state is not JobState.SUCCEEDED
    )


def pending(bench: BenchRecord, retried: TrialKeys) -> list[Slot]:
    """The slots to run, in order: slots without a trial, and slots whose last trial is in
    `retried`.
    """
    latest = bench.latest()
    slots = list(
        (all_slots if bench.against is None else paired_slots)(len(bench.cells), bench.repeat)
    )
    chosen = {s for s in slots if s not in latest or latest[s].key in retried}
    if bench.against is not None and any(packed_job(trial.run) for trial in bench.trials):
        chosen = _whole_pairs(chosen, latest)
    return [slot for slot in slots if slot in chosen]


def _whole_pairs(slots: set[Slot], latest: Mapping[Slot, Trial]) -> set[Slot]:
    """Both slots of each pair, for one packed job: another job may have other machines. A pair
    waits while a slot of it is in a job that has not ended.
    """
    both = slots | {(cell ^ 1, repetition) for cell, repetition in slots}
    going = {s for s, trial in latest.items() if not trial.state.is_final}
    return {
        (cell, number) for cell, number in both if not {(cell, number), (cell ^ 1, number)} & going
    }


def next_trial(bench: BenchRecord, slot: Slot, run: str) -> Trial:
    """The next attempt at a slot."""
    before = [trial.attempt for trial in bench.trials if trial.slot == slot]
    cell, repetition = slot
    return Trial(cell=cell, repetition=repetition, attempt=max(before, default=-1) + 1, run=run)
