"""The sides of a paired gate, packed into one job where starts of machines are billed."""

from __future__ import annotations

import os
from dataclasses import replace

from rsctl.api.bench_run import PreparedBench, prepare_bench
from rsctl.api.gate_against import pair_with
from rsctl.api.job_file import load
from rsctl.bench.packed import pack_job, pair_obstacles
from rsctl.bench.paired_plan import PairedPlan
from rsctl.findings import RsctlError, note
from rsctl.job.matrix import plain
from rsctl.plan import make_plan
from rsctl.runs.ids import placeholder

_REMEDY = "make the two sides fit into one job, or give --no-pack"


def pair_and_pack(
    candidate: PreparedBench,
    against: str | os.PathLike[str],
    target: str | None,
    repeat: int,
) -> tuple[PreparedBench, PairedPlan]:
    """The bench of a candidate and its baseline, and its plan: see `pair_with`. Raises RsctlError.

    In a cloud `repeat` repetitions of both sides are one job, unless the job file or a setting has
    `bench.pack`. If they cannot be one job, a note says why.
    """
    prepared, plan = pair_with(candidate, against, target)
    root = candidate.plan.document.root
    given = plain(root).get("bench") if root is not None else None
    if plan.target.info.billing is None or "pack" in (given or {}):
        return prepared, plan
    reasons = _obstacles(plan, repeat)
    if reasons:
        notes = [note("pack", f"not packed into one job: {why}", _REMEDY) for why in reasons]
        return replace(prepared, findings=(*prepared.findings, *notes)), plan
    job, rehearsal = candidate.job, plan.rehearsal
    settings = (*job.settings, "bench.pack=true")
    packed = load(job.path, set=settings, text=job.text, strict=False)
    again = prepare_bench(packed, target, rehearse=rehearsal.given if rehearsal else None)
    return pair_with(again, against, target)


def _obstacles(plan: PairedPlan, repeat: int) -> list[str]:
    """Why the repetitions of a pair of cells cannot be one job, such as its time limit."""
    found = [finding.message for finding in pair_obstacles(plan.cells, plan.against.label)]
    if found:
        return found
    for number in range(0, len(plan.cells), 2):
        job = pack_job(plan.cells[number : number + 2], [0, 1] * repeat)
        try:
            make_plan(job, plan.target, placeholder(job.name))
        except RsctlError as problem:
            found += [finding.message for finding in problem.findings if finding.is_error]
    return list(dict.fromkeys(found))
