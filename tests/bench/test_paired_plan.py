"""Two job files as pairs of cells, and why they cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from rsctl.bench.paired_plan import PairedPlan, pair_plans
from rsctl.bench.prepare import prepare
from rsctl.bench.records import BASELINE, CANDIDATE, SIDE, Against
from rsctl.findings import ExitCode, RsctlError
from rsctl.job.document import read

from .test_packed import ledger as ledger


def pairs(ledger: Path, before: tuple[str, ...] = (), after: tuple[str, ...] = ()) -> PairedPlan:
    """The pairs of the folder's job with the settings of either side."""
    file = str(ledger.parent / "job.yaml")
    plans = [prepare(read(file, settings), settings, None) for settings in (after, before)]
    return pair_plans(*plans, Against(given="main", file=file))


def test_each_cell_of_both_files_is_a_pair(ledger: Path) -> None:
    """A slot's arguments, variables, metrics and `bench` may differ; other cells have no pair."""
    plan = pairs(
        ledger,
        ("matrix={run.args.cell: [b, a, old]}", "run.env.LEVEL=1", "bench.pack=false"),
        ("matrix={run.args.cell: [a, b, new]}", "run.args.speed=2", "metrics.speed.unit=s"),
    )
    cell = "run.args.cell"
    assert [each.values for each in plan.cells] == [
        {SIDE: side, cell: value} for value in ("a", "b") for side in (BASELINE, CANDIDATE)
    ]
    assert plan.against.unpaired == [{SIDE: BASELINE, cell: "old"}, {SIDE: CANDIDATE, cell: "new"}]


@pytest.mark.parametrize(
    ("before", "after", "finding"),
    [
        (
            "matrix={run.args.cell: [c]}",
            "",
            "error against: no cell of the matrix is also in the job file of main -> keep a cell "
            "of the baseline in the matrix",
        ),
        (
            "comm.bucket_mb=1",
            "limits.grace=3s",
            "error comm: bench.pack runs both sides inside one job, and main has another comm, "
            "limits: only run.args, run.env, the program and the source may differ -> use "
            "--no-pack, or bench.pack: false",
        ),
    ],
)
def test_files_that_cannot_be_paired(ledger: Path, before: str, after: str, finding: str) -> None:
    with pytest.raises(RsctlError) as caught:
        pairs(ledger, (before,), (after,) if after else ())
    assert caught.value.exit_code is ExitCode.USAGE
    assert [
        f"{f.severity} {f.path or f.code}: {f.message} -> {f.remedy}" for f in caught.value.findings
    ] == [finding]
