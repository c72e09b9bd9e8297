"""Predicted against measured step times of jobs on shaped networks. Needs root.

`python -m benchmarks advise` measures every case `--runs` times, keeps what it measured in
`measured.json`, and writes `accuracy.md` and `accuracy.svg`. `python -m benchmarks.advise` makes
these of what is kept, by the model as it is now; it needs no root and takes seconds.
`python -m benchmarks.advise computing` measures the cases whose ranks compute, before that.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from benchmarks.advise.accuracy import evaluate
from benchmarks.advise.cases import COMPUTING, FITTED, PREDICTED, Case
from benchmarks.advise.cluster import measure_alone, measure_together
from benchmarks.advise.kept import COMPUTING as COMPUTING_FILE
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
    keep(_measured((*FITTED, *PREDICTED), runs))
    return report()


def measure_computing(runs: int) -> Report:
    """Measure the cases whose ranks compute, as `run` does the others."""
    keep(_measured(COMPUTING, runs), COMPUTING_FILE)
    return report()


def _measured(cases: Sequence[Case], runs: int) -> list[Measured]:
    measured = []
    for _ in range(runs):
        for case in cases:
            load = os.getloadavg()[0]
            alone = measure_alone(case, _ALONE_STEPS)
            together = measure_together(case, STEPS)
            measured.append(Measured(case.name, alone, together, load))
            print(f"{case.name}: {together.seconds:.4f} s", file=sys.stderr, flush=True)
    return measured


def _shortest(case: Case) -> Report:
    report = Report("advise", f"{_FEWEST_STEPS} steps of {case.name}")
    report.add("alone", "s", [measure_alone(case, _FEWEST_STEPS).seconds])
    report.add("together", "s", [measure_together(case, _FEWEST_STEPS).seconds])
    return report


def report() -> Report:
    """What the kept measurements say of the model, also written as a table and a chart."""
    return evaluate([*kept(), *kept(COMPUTING_FILE)])
