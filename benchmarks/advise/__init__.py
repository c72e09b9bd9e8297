"""Predicted against measured step times of jobs on shaped networks. Needs root.

`python -m benchmarks advise` measures every case `--runs` times, keeps what it measured in
`measured.json`, and writes `accuracy.md` and `accuracy.svg`. `python -m benchmarks.advise` makes
these of what is kept, by the model as it is now; it needs no root and takes seconds.
"""

from __future__ import annotations

import sys

from benchmarks.advise.accuracy import evaluate
from benchmarks.advise.cases import FITTED, PREDICTED, Case
from benchmarks.advise.cluster import measure_alone, measure_together
from benchmarks.advise.kept import Measured, keep, kept
from benchmarks.report import Report

RUNS = 2
STEPS = 20
_ALONE_STEPS = 15
_FEWEST_STEPS = 3  # a record of fewer is not printed


def run(runs: int, is_kept: bool = True) -> Report:
    """Measure all cases, one after the other, `runs` times; predict, compare, write it down.

    Without `is_kept` it measures one case with a few steps, and writes nothing.
    """
    if not is_kept:
        return _shortest(FITTED[-1])
    measured = []
    for _ in range(runs):
        for case in (*FITTED, *PREDICTED):
            alone = measure_alone(case, _ALONE_STEPS)
            together = measure_together(case, STEPS)
            measured.append(Measured(case=case.name, alone=alone, together=together))
            print(f"{case.name}: {together.seconds:.4f} s", file=sys.stderr, flush=True)
    keep(measured)
    return report()


def _shortest(case: Case) -> Report:
    report = Report("advise", f"{_FEWEST_STEPS} steps of {case.name}")
    report.add("alone", "s", [measure_alone(case, _FEWEST_STEPS).seconds])
    report.add("together", "s", [measure_together(case, _FEWEST_STEPS).seconds])
    return report


def report() -> Report:
    """What the kept measurements say of the model, also written as a table and a chart."""
    return evaluate(kept())
