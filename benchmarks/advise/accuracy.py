"""Fits the model to some of the cases, predicts the others, and writes down how far off it is."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from benchmarks.advise.cases import COMPUTING, FITTED, MB, PREDICTED, Case
from benchmarks.advise.kept import FOLDER, Measured
from benchmarks.advise.plot import write_plot
from benchmarks.report import Report
from rsctl.estimate.advice.calibrate import Observation, calibrate
from rsctl.estimate.advice.calibration import UNCALIBRATED, Calibration
from rsctl.estimate.advice.cluster import ModelledCluster
from rsctl.estimate.advice.measured import profile_of_record
from rsctl.estimate.advice.shared_cores import with_shared_cores
from rsctl.estimate.advice.step import ExchangeSettings

_TITLES = (
    "Jobs whose ranks sleep in place of computing",
    "Jobs whose ranks compute, each pinned to a core",
)
_HEAD = (
    "workers + reducers | Mbit/s | gradients | bucket | computation | measured | predicted | error "
    "| without calibration"
)


def evaluate(measured: Sequence[Measured]) -> Report:
    """Errors of predicted step times; the fit sees the cases of `FITTED` only."""
    fitted = calibrate(_observations(FITTED, measured), UNCALIBRATED)
    rows = [_row(case, measured, fitted) for case in PREDICTED]
    computing = [_row(case, measured, fitted) for case in COMPUTING]
    tables = [[f"## {t}", "", *_table(r)] for t, r in zip(_TITLES, (rows, computing), strict=True)]
    text = "\n\n".join("\n".join(table) for table in tables)
    (FOLDER / "accuracy.md").write_text(f"# Predicted and measured steps\n\n{text}\n")
    write_plot(FOLDER / "accuracy.svg", [(row.measured, row.predicted) for row in rows])
    errors = [abs(row.error) for row in rows]
    report = Report("advise", f"step times of {len(rows)} jobs that the model was not fitted to")
    report.add("error of a predicted step time", "%", [100 * e for e in errors], "5")
    report.add("its worst", "%", [100 * max(errors)], "15")
    plain = [100 * abs(row.uncalibrated) for row in rows]
    report.add("without calibration", "%", plain)
    errors = [abs(row.error) for row in computing]
    report.add("error of a step whose ranks compute", "%", [100 * e for e in errors])
    report.notes.append(_constants(fitted))
    return report


class _Row:
    """A case with its measured and predicted step, in seconds."""

    def __init__(self, case: Case, observations: Sequence[Observation], fitted: Calibration):
        self.case = case
        self.measured = median(one.seconds for one in observations)
        self.predicted = median(one.predicted(fitted) for one in observations)
        self.error = self.predicted / self.measured - 1
        plain = median(one.predicted(UNCALIBRATED) for one in observations)
        self.uncalibrated = plain / self.measured - 1


def _row(case: Case, measured: Sequence[Measured], fitted: Calibration) -> _Row:
    return _Row(case, _observations([case], measured), fitted)


def _observations(cases: Sequence[Case], measured: Sequence[Measured]) -> list[Observation]:
    by_name = {case.name: case for case in cases}
    return [_observation(by_name[m.case], m) for m in measured if m.case in by_name]


def _observation(case: Case, measured: Measured) -> Observation:
    """All nodes share the cores of this machine, or those to which they are pinned."""
    rate = case.mbit * 1e6
    cluster = ModelledCluster(
        workers=case.workers,
        worker_bits=rate,
        reducers=case.reducers,
        reducer_bits=rate,
        shared_cores=case.cores,
    )
    profile = profile_of_record(measured.alone, "measured")
    return Observation(
        run=case.name,
        seconds=measured.together.seconds,
        profile=with_shared_cores(profile, cluster) if case.batch else profile,
        cluster=cluster,
        settings=ExchangeSettings(bucket_mb=case.bucket_mb),
    )


def _table(rows: Sequence[_Row]) -> list[str]:
    dashes = " | ".join(["---"] * (_HEAD.count("|") + 1))
    lines = [f"| {_HEAD} |", f"| {dashes} |"]
    for row in rows:
        case = row.case
        cells = [
            f"{case.workers} + {case.reducers}",
            str(case.mbit),
            f"{case.bytes / MB:g} MB",
            f"{case.bucket_mb} MiB",
            f"{case.batch} rows, {_cores(case)}" if case.batch else f"{case.compute:g} s",
            f"{row.measured:.3f} s",
            f"{row.predicted:.3f} s",
            f"{row.error:+.1%}",
            f"{row.uncalibrated:+.1%}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _cores(case: Case) -> str:
    return "1 core" if case.cores == 1 else f"{case.cores} cores"


def _constants(fitted: Calibration) -> str:
    return (
        f"fitted to {len(FITTED)} others: {fitted.bandwidth_fraction:.3f} of the net rate, "
        f"alpha {1e6 * fitted.alpha_seconds:.0f} us, overlap {fitted.overlap:.2f}"
    )
