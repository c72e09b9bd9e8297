"""The order of a bench's runs: interleaved over cells, and balanced."""

from __future__ import annotations

from collections.abc import Iterator

from rsctl.bench.records import Bench, Trial
from rsctl.findings import JobState

Place = tuple[int, int]
"""Cell and repetition, from 0."""

Tried = frozenset[tuple[int, int, int]]
"""Cell, repetition and attempt of trials."""


def places(cells: int, repeat: int) -> Iterator[Place]:
    """A B C, C B A, A B C …: what drifts with time meets all cells alike."""
    for repetition in range(repeat):
        row = range(cells) if repetition % 2 == 0 else reversed(range(cells))
        yield from ((cell, repetition) for cell in row)


def failed(bench: Bench) -> Tried:
    """The trials that have ended in any other way than they should."""
    return frozenset(
        (*trial.place, trial.attempt)
        for trial in bench.latest().values()
        if trial.state.is_final and trial.state is not JobState.SUCCEEDED
    )


def pending(bench: Bench, again: Tried) -> list[Place]:
    """What is to be run, in order: what has no trial yet, and whose last trial is in `again`."""
    latest = bench.latest()
    return [
        place
        for place in places(len(bench.cells), bench.repeat)
        if place not in latest or (*place, latest[place].attempt) in again
    ]


def next_trial(bench: Bench, place: Place, run: str) -> Trial:
    """The next attempt at a place."""
    before = [trial.attempt for trial in bench.trials if trial.place == place]
    cell, repetition = place
    return Trial(cell=cell, repetition=repetition, attempt=max(before, default=-1) + 1, run=run)
