"""The samples of a paired bench: a baseline and a candidate, repetition by repetition."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple, Optional

import msgspec

from rsctl.bench.fingerprint import Cell, run_print
from rsctl.bench.paired import block_numbers
from rsctl.bench.records import BASELINE, CANDIDATE, SIDE, Against, BenchRecord
from rsctl.bench.results import CellRuns, Results, Series, bench_results, cell_label, trials_of
from rsctl.runs.ids import packed_job
from rsctl.runs.store import Store

_MACHINE = "machine"
_UNPAIRED = "not run: the job file of the other side does not have this cell"


class PairedResults(NamedTuple):
    """The samples of both sides. `blocks` has the block of each repetition by the label of its
    cell, or None if its runs were on machines that differ; `apart` says which.
    """

    against: Against
    baseline: Results
    candidate: Results
    blocks: dict[str, list[Optional[Hashable]]]
    apart: dict[str, list[str]]


def paired_results(store: Store, bench: BenchRecord, repetitions: range) -> PairedResults:
    """The samples of a paired bench. Raises StoreError."""
    against = bench.against
    if against is None:
        raise ValueError(f"{bench.bench} is not paired")
    sides = {side: _cells_of(bench, side) for side in (BASELINE, CANDIDATE)}
    label = against.label
    before = bench_results(store, bench, repetitions, label, sides[BASELINE])
    after = bench_results(store, bench, repetitions, cells=sides[CANDIDATE])
    blocks: dict[str, list[Optional[Hashable]]] = {}
    apart: dict[str, list[str]] = {}
    for (one, cell), other in zip(sides[BASELINE].items(), sides[CANDIDATE], strict=True):
        name = cell_label(cell)
        machines = [_machines(store, bench, index, repetitions) for index in (one, other)]
        blocks[name], apart[name] = _blocks(*machines)
    for cell in against.unpaired:
        results = before if cell[SIDE] == BASELINE else after
        results.cells.append(CellRuns(cell=without_side(cell), wanted=0, lost=[_UNPAIRED]))
    for results in (before, after):  # the pairs are compared instead, one by one
        for entry in results.fingerprint.cells:
            entry.fixed.pop(_MACHINE, None)
    return PairedResults(against, before, after, blocks, apart)


def own_results(store: Store, bench: BenchRecord, repetitions: range | None = None) -> Results:
    """The samples of a bench's own job: of a paired bench those of its candidate, as those of any
    bench of this job. Raises StoreError.
    """
    cells = None if bench.against is None else _cells_of(bench, CANDIDATE)
    return bench_results(store, bench, repetitions, cells=cells)


def _cells_of(bench: BenchRecord, side: str) -> dict[int, Cell]:
    """The cells of one side of a paired bench by their number, as its job file has them."""
    return {
        index: without_side(cell)
        for index, cell in enumerate(bench.cells)
        if cell.get(SIDE) == side
    }


def without_side(cell: Cell) -> Cell:
    """The values of a cell of a paired bench as its job file has them."""
    return {key: value for key, value in cell.items() if key != SIDE}


def together(first: PairedResults, again: PairedResults) -> PairedResults:
    """The repetitions of both; no block has repetitions of both."""
    blocks = {
        name: [*_part(0, known), *_part(1, again.blocks.get(name, []))]
        for name, known in first.blocks.items()
    }
    apart = {name: [*found, *again.apart.get(name, [])] for name, found in first.apart.items()}
    baseline = _added(first.baseline, again.baseline)
    candidate = _added(first.candidate, again.candidate)
    return PairedResults(first.against, baseline, candidate, blocks, apart)


def _added(first: Results, again: Results) -> Results:
    """The values of both, series by series; repetitions without any value keep their place."""
    series = [one.followed_by(again.find(one.name, one.cell)) for one in first.series]
    return msgspec.structs.replace(first, series=series)


def _part(number: int, blocks: Sequence[Optional[Hashable]]) -> list[Optional[Hashable]]:
    return [None if block is None else (number, block) for block in blocks]


def _machines(
    store: Store, bench: BenchRecord, cell: int, repetitions: range
) -> list[Optional[str]]:
    """The machines that each repetition's nodes report, None if they report nothing; of slots the
    packed job, all of which have run on the same nodes.
    """
    found: list[Optional[str]] = []
    for trial in trials_of(bench, cell, repetitions):
        run = store.get(trial.run) if trial is not None else None
        own = run_print(store, run)[0].get(_MACHINE) if run is not None else None
        found.append(packed_job(trial.run if trial else "") or own)
    return found


def _blocks(
    before: Sequence[Optional[str]], after: Sequence[Optional[str]]
) -> tuple[list[Optional[Hashable]], list[str]]:
    """The block of each repetition; runs on other machines are of a block of their own."""
    blocks: list[Optional[Hashable]] = []
    apart = []
    for number, block in enumerate(block_numbers(len(before))):
        one, other = before[number], after[number]
        if one is not None and other is not None and one != other:
            apart.append(f"repetition {number + 1} ran on different machines: {one} -> {other}")
            blocks.append(None)
        else:
            blocks.append((block, one or other))
    return blocks, apart


def paired_values(
    before: Series, after: Series, blocks: Sequence[Optional[Hashable]]
) -> tuple[list[Optional[float]], list[Optional[float]]]:
    """The values of both sides by repetition, None on both sides where one does not count."""
    pairs = [
        (one, other) if None not in (one, other, block) else (None, None)
        for one, other, block in zip(before.finite, after.finite, blocks, strict=False)
    ]
    return [one for one, _ in pairs], [other for _, other in pairs]
