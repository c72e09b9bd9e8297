"""Two job files to one bench: the cells of a baseline and of a candidate, side by side."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from rsctl.bench.fingerprint import CellPrint, Fingerprint, definitions, plan_print
from rsctl.bench.packed import require_pairs
from rsctl.bench.paired_results import without_side
from rsctl.bench.prepare import BenchCell, BenchPlan
from rsctl.bench.records import BASELINE, CANDIDATE, SIDE, Against, BenchRecord, Cell, new_bench_id
from rsctl.bench.results import cell_label
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.job.job import Job
from rsctl.target_info import TargetInfo


@dataclass(frozen=True, kw_only=True)
class PairedPlan(BenchPlan):
    """The common cells of two job files; each is there twice, the baseline's first.

    Everything else comes from the candidate's job file.
    """

    against: Against

    @property
    def job(self) -> Job:
        """The candidate's job of the first cell, for what all cells have in common."""
        return self.cells[1].submission.job

    @property
    def is_sequential(self) -> bool:
        """Whether the runs use the same machines in turn, which only works one by one."""
        return bool(_kept_machines(self.job, self.target.info))

    def new_bench(self, repeat: int) -> BenchRecord:
        """A bench to record."""
        bench = super().new_bench(repeat)
        bench.against = self.against
        return bench

    def fingerprint(self, side: str) -> Fingerprint:
        """The properties of a side that must be equal, less those that only runs report."""
        cells = [cell for cell in self.cells if cell.values[SIDE] == side]
        prints = []
        for cell in cells:
            job, plan = cell.submission.job, msgspec.to_builtins(cell.submission.plan)
            fixed = plan_print(self.target.info.name, plan)
            fixed |= _kept_machines(job, self.target.info)
            prints.append(CellPrint(without_side(cell.values), fixed))
        specs = replace(self, cells=[cells[0], cells[0]]).metric_specs
        return Fingerprint(prints, definitions(specs))


def pair_plans(candidate: BenchPlan, baseline: BenchPlan, against: Against) -> PairedPlan:
    """The cells that both job files have, as pairs. Raises RsctlError if nothing can be paired."""
    names = [plan.target.info.name for plan in (baseline, candidate)]
    if names[0] != names[1]:
        message = f"the baseline runs on {names[0]}, but the candidate on {names[1]}"
        raise RsctlError(ExitCode.USAGE, error("against", message, "choose one with --target"))
    before = {_key(cell.values): cell for cell in baseline.cells}
    after = {_key(cell.values): cell for cell in candidate.cells}
    cells: list[BenchCell] = []
    for key in after:
        if key in before:
            cells.append(_of_side(before[key], BASELINE))
            cells.append(_of_side(after[key], CANDIDATE))
    if not cells:
        message = f"no cell of the matrix is also in the job file of {against.label}"
        remedy = "keep a cell of the baseline in the matrix"
        raise RsctlError(ExitCode.USAGE, error("against", message, remedy))
    if candidate.is_packed:
        require_pairs(cells, against.label)
    unpaired = [{SIDE: BASELINE, **before[key].values} for key in before if key not in after]
    unpaired += [{SIDE: CANDIDATE, **after[key].values} for key in after if key not in before]
    return PairedPlan(
        candidate.document,
        candidate.settings,
        candidate.target,
        cells,
        [*candidate.findings, *(f for f in baseline.findings if f not in candidate.findings)],
        f"{candidate.inputs} against {baseline.inputs}",
        candidate.rehearsal,
        against=msgspec.structs.replace(against, unpaired=unpaired),
    )


def plan_paired_confirmation(
    plan: PairedPlan, bench: BenchRecord, cells: Sequence[Cell], repeat: int
) -> tuple[PairedPlan, BenchRecord]:
    """Fresh pairs of some cells, as a bench of their own that belongs to a bench.

    The same cells of the same bench have the same definition, so that it can be continued.
    """
    part = replace(plan, cells=[c for c in plan.cells if without_side(c.values) in list(cells)])
    again = part.new_bench(repeat)
    labels = "\n".join(sorted(map(cell_label, cells)))
    definition = f"{bench.bench} confirmed\n{part.definition}\n{labels}"
    again.bench = new_bench_id(f"{bench.name}-confirm")
    again.definition = hashlib.sha256(definition.encode()).hexdigest()
    return part, again


def _of_side(cell: BenchCell, side: str) -> BenchCell:
    return replace(cell, values={SIDE: side, **cell.values})


def _key(cell: Cell) -> bytes:
    return msgspec.json.encode(cell, order="sorted")


def _kept_machines(job: Job, target: TargetInfo) -> dict[str, Any]:
    """The options of a job by which its runs use the same machines."""
    block = getattr(job.targets, target.name, None)
    return {
        f"targets.{target.name}.{option}": str(value)
        for option in sorted(target.reuses_machines)
        if (value := getattr(block, option, None))
    }
