"""Results: samples of runs by metric and cell, however they were kept: run, bench or baseline."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import zip_longest
from typing import Any, Literal, NamedTuple, Optional, TypeVar

import msgspec

from rsctl.bench.curves import Curve, curve_parts
from rsctl.bench.fingerprint import Cell, CellPrint, Fingerprint, definitions, merged, run_print
from rsctl.bench.phases import seconds_between
from rsctl.bench.records import Benches, BenchRecord, Trial
from rsctl.bench.samples import Sample, samples, samples_and_curves
from rsctl.findings import ExitCode, JobState, RsctlError, error
from rsctl.job.gate_checks import CURVE, metric_of
from rsctl.job.matrix import format_value
from rsctl.runs.store import RunRecord, Store

Found = TypeVar("Found", RunRecord, BenchRecord)
Kind = Literal["run", "bench", "baseline"]


class Series(msgspec.Struct, kw_only=True):
    """One metric of one cell: one value per repetition, None if its run has no data.

    `reasons` say why values are lacking, each once. `diverged` is the number of runs whose last
    value is not finite. `logged` is the least number of values that a run logged, of a metric of
    the job. `curves` has the curve of each run, if it was asked for.
    """

    name: str
    unit: Optional[str] = None
    goal: Optional[str] = None
    cell: Cell = {}
    values: list[Optional[float]] = []
    reasons: list[str] = []
    diverged: int = 0
    logged: Optional[int] = None
    curves: list[Optional[Curve]] = []

    def as_curve(self) -> Series:
        """The same runs by the means of their curves; None for a run without a curve."""
        runs = list(zip_longest(self.values, self.curves))
        reasons = list(self.reasons)
        if not self.curves:
            reasons.append(
                f"it has no curves: measure it with max_regression of {CURVE}{self.name}"
            )
        elif any(value is not None and curve is None for value, curve in runs):
            reasons.append(f"the curve of {self.name} needs steps: give its regex a group `step`")
        values = [None if v is None or curve is None else curve.mean for v, curve in runs]
        return msgspec.structs.replace(self, name=CURVE + self.name, values=values, reasons=reasons)

    def followed_by(self, other: Series | None) -> Series:
        """The runs of both."""
        if other is None:
            return self
        reasons = list(dict.fromkeys([*self.reasons, *other.reasons]))
        return msgspec.structs.replace(
            self,
            values=[*self.values, *other.values],
            reasons=reasons,
            diverged=self.diverged + other.diverged,
            logged=min(filter(None, (self.logged, other.logged)), default=None),
            curves=[*self.curves, *other.curves],
        )

    @property
    def title(self) -> str:
        """The metric, and its cell if it has one: `loss (workers.count=2)`."""
        return describe_cell(self.cell, self.name)

    @property
    def groups(self) -> list[list[float]]:
        """The known values; of a curve those of each part."""
        if not self.is_curve or not self.known:
            return [self.known]
        try:
            parts = curve_parts(self.curves, [])
        except ValueError:
            return [self.known]
        return [[value for value in part.baseline if value is not None] for part in parts]

    @property
    def is_curve(self) -> bool:
        """Whether its values are means of curves."""
        return self.name.startswith(CURVE) and bool(self.curves)

    @property
    def known(self) -> list[float]:
        """The values that there are."""
        return [value for value in self.finite if value is not None]

    @property
    def finite(self) -> list[Optional[float]]:
        """The values by repetition, None if one is not finite."""
        return [v if v is not None and math.isfinite(v) else None for v in self.values]


class SeriesPart(NamedTuple):
    """The runs of two sides in a part of their curves, with its first and last step.

    Of a metric itself, all there is.
    """

    baseline: Series
    candidate: Series
    steps: Optional[tuple[int, int]] = None


def parts_of(before: Series, after: Series) -> list[SeriesPart]:
    """The parts of the curves of two sides. Raises ValueError, see `curve_parts`."""
    if not before.is_curve:
        return [SeriesPart(before, after)]
    return [
        SeriesPart(
            msgspec.structs.replace(before, values=part.baseline),
            msgspec.structs.replace(after, values=part.candidate),
            part.steps,
        )
        for part in curve_parts(before.curves, after.curves)
    ]


class CellRuns(msgspec.Struct, kw_only=True):
    """The runs of a cell, as many as planned, and the reasons for missing samples.

    `failures` are the exit codes of the failed runs. `seconds` is how long the runs took together,
    from their submission to their end.
    """

    cell: Cell = {}
    runs: list[str] = []
    seconds: float = 0.0
    wanted: int = 1
    lost: list[str] = []
    failures: list[int] = []

    @property
    def has_failed(self) -> bool:
        """Whether every run of the cell has failed."""
        return bool(self.failures) and len(self.failures) == len(self.runs)

    def followed_by(self, again: Optional[CellRuns]) -> CellRuns:
        """The runs of both."""
        if again is None:
            return self
        return CellRuns(
            cell=self.cell,
            runs=[*self.runs, *again.runs],
            seconds=self.seconds + again.seconds,
            wanted=self.wanted + again.wanted,
            lost=[*self.lost, *again.lost],
            failures=[*self.failures, *again.failures],
        )


class Results(msgspec.Struct, kw_only=True):
    """Measurements. `label` is the display name; a baseline is `of` a bench or run."""

    label: str
    of: str = ""
    kind: Kind
    fingerprint: Fingerprint = msgspec.field(default_factory=Fingerprint)
    series: list[Series] = []
    cells: list[CellRuns] = []
    made: str = ""

    @property
    def is_rehearsed(self) -> bool:
        """Whether a cloud was emulated for one of its runs: its times say nothing of the cloud."""
        return any("rehearsed" in entry.fixed for entry in self.fingerprint.cells)

    def find(self, name: str, cell: Cell) -> Series | None:
        """The series of a metric, or of the curve of one, and a cell; or None."""
        found = next((s for s in self.series if s.name == name and s.cell == cell), None)
        if found is None and name.startswith(CURVE):
            metric = self.find(metric_of(name), cell)
            return metric.as_curve() if metric else None
        return found

    def of_cell(self, cell: Cell) -> CellRuns | None:
        """The runs of a cell, or None."""
        return next((entry for entry in self.cells if entry.cell == cell), None)


def cell_label(cell: Cell) -> str:
    """`workers.count=2, run.args.amp=true`; empty for the one cell of a job without a matrix."""
    return ", ".join(f"{name}={format_value(value)}" for name, value in cell.items())


def describe_cell(cell: Cell | None, metric: str) -> str:
    """A metric, and its cell if it has one: `loss (workers.count=2)`."""
    return f"{metric} ({cell_label(cell)})" if cell else metric


def find_source(store: Store, reference: str) -> RunRecord | BenchRecord:
    """The run or bench of a reference. `@last` is the later of the two; a bench's own runs are it.

    Raises RsctlError if there is none, or several.
    """
    benches = Benches(store)
    if reference == "@last":
        run = store.find(reference)
        return benches.of_run(run.run) or run
    exact = benches.get(reference)
    if exact is not None:
        return exact
    run_found, run_problem = _attempt(lambda: store.find(reference))
    bench_found, bench_problem = _attempt(lambda: benches.find(reference))
    if run_found is not None and run_found.run == reference:
        return run_found
    sources: list[RunRecord | BenchRecord] = [f for f in (run_found, bench_found) if f is not None]
    is_vague = any("several" in str(p) for p in (run_problem, bench_problem) if p)
    if len(sources) == 1 and not is_vague:
        return sources[0]
    if sources or is_vague:
        message = f"{reference!r} matches several runs or benches"
        raise RsctlError(ExitCode.USAGE, error("run", message, "give more characters of the ID"))
    message = f"{reference!r} is not a run, a bench or a file"
    remedy = "see `rsctl list` and `rsctl bench list`"
    raise RsctlError(ExitCode.USAGE, error("run", message, remedy))


def run_results(store: Store, run: RunRecord, known: Mapping[str, Sample] | None = None) -> Results:
    """The results of one run, whose samples may be known already."""
    known = samples(store, run) if known is None else known
    found = known if run.state is JobState.SUCCEEDED else {}
    lost = [] if run.state is JobState.SUCCEEDED else [f"{run.run} {_how(run)}"]
    names = {**found, **{name: Sample() for name in run.metrics_spec if name not in found}}
    fixed, shown = run_print(store, run)
    return Results(
        label=run.run,
        kind="run",
        fingerprint=Fingerprint([CellPrint({}, fixed)], definitions(run.metrics_spec), shown),
        series=[_series(name, {}, [found.get(name)], lost, run) for name in names],
        cells=[
            CellRuns(runs=[run.run], seconds=_took([run]), lost=lost, failures=_failures([run]))
        ],
        made=run.created,
    )


def bench_results(
    store: Store,
    bench: BenchRecord,
    repetitions: range | None = None,
    label: str | None = None,
    cells: Mapping[int, Cell] | None = None,
) -> Results:
    """The results of a bench, of all repetitions or some of them.

    `cells` are the cells that count, by their number, with the values that the results show. By
    default all cells count.
    """
    chosen = range(bench.repeat) if repetitions is None else repetitions
    results = Results(label=label or bench.bench, kind="bench", made=bench.created)
    shown: list[dict[str, Any]] = []
    for index, cell in (cells or dict(enumerate(bench.cells))).items():
        _add_cell(results, shown, store, trials_of(bench, index, chosen), cell)
    if bench.images and cells is None:
        shown.append({"image": ", ".join(sorted(bench.images.values()))})
        shown = [{n: v for n, v in s.items() if n != "image"} for s in shown[:-1]] + shown[-1:]
    results.fingerprint.shown = merged([*shown, bench.content])
    return results


def _add_cell(
    results: Results,
    shown: list[dict[str, Any]],
    store: Store,
    trials: list[Optional[Trial]],
    cell: Cell,
) -> None:
    """Add what the trials of a cell measured; a repetition that has not run has no trial."""
    begun = [trial for trial in trials if trial is not None]
    runs = {trial.run: run for trial in begun if (run := store.get(trial.run)) is not None}
    prints = {name: run_print(store, run) for name, run in runs.items()}
    shown += [may_differ for _, may_differ in prints.values()]
    fixed = merged([fixed for fixed, _ in prints.values()])
    machines = [
        prints[trial.run][0].get("machine") if trial is not None and trial.run in prints else None
        for trial in trials
    ]
    results.fingerprint.cells.append(CellPrint(cell, fixed, machines))

    succeeded = [t.run for t in begun if t.state is JobState.SUCCEEDED and t.run in runs]
    lost = [_why(trial, runs.get(trial.run)) for trial in begun if trial.run not in succeeded]
    if missing := len(trials) - len(begun):
        lost.append(f"{missing} of {len(trials)} repetitions have not run")
    results.cells.append(
        CellRuns(
            cell=cell,
            runs=[trial.run for trial in begun],
            seconds=_took(runs.values()),
            wanted=len(trials),
            lost=lost,
            failures=_failures(begun),
        )
    )

    read = {name: samples_and_curves(store, runs[name]) for name in succeeded}
    measured = {name: found for name, (found, _) in read.items()}
    curves = {name: found for name, (_, found) in read.items()}
    names = [trial.run if trial is not None else "" for trial in trials]
    by_trial = [measured.get(name, {}) for name in names]
    latest = next(reversed(runs.values()), None)
    if latest is not None:
        results.fingerprint.metrics |= definitions(latest.metrics_spec)
    for name in _metric_names(latest, measured.values()):
        values = [known.get(name) for known in by_trial]
        series = _series(name, cell, values, lost, latest)
        series.curves = [curves.get(run, {}).get(name) for run in names]
        results.series.append(series)


def _metric_names(run: RunRecord | None, measured: Iterable[Mapping[str, Sample]]) -> list[str]:
    """The metrics that a run declares, then the others that were measured, each once."""
    declared = run.metrics_spec if run is not None else {}
    return list(dict.fromkeys([*declared, *(name for known in measured for name in known)]))


def trials_of(bench: BenchRecord, cell: int, repetitions: range) -> list[Optional[Trial]]:
    """The latest trial of each repetition; None if none has been made."""
    latest = bench.latest()
    return [latest.get((cell, repetition)) for repetition in repetitions]


def _took(runs: Iterable[RunRecord]) -> float:
    """The seconds of all runs that have ended, one after the other."""
    return sum(seconds_between(run.created, run.ended) or 0.0 for run in runs)


def _failures(ended: Iterable[RunRecord | Trial]) -> list[int]:
    """The exit codes of those that have ended otherwise than with success."""
    return [
        int(one.state.exit_code if one.exit_code is None else one.exit_code)
        for one in ended
        if one.state.is_final and one.state is not JobState.SUCCEEDED
    ]


def _series(
    name: str,
    cell: Cell,
    samples_of: list[Optional[Sample]],
    lost: list[str],
    run: RunRecord | None,
) -> Series:
    there = [sample for sample in samples_of if sample is not None]
    spec = run.metrics_spec.get(name) if run else None
    reasons = [sample.reason for sample in there if sample.value is None and sample.reason]
    is_of_job = not name.startswith(("run.", "step."))
    counts = [sample.total for sample in there if sample.total and is_of_job]
    return Series(
        name=name,
        unit=next((f.unit for f in there if f.unit), spec.unit if spec else None),
        goal=next((f.goal for f in there if f.goal), spec.goal if spec else None),
        cell=cell,
        values=[sample.value if sample else None for sample in samples_of],
        reasons=list(dict.fromkeys([*lost, *reasons])),
        diverged=sum(sample.diverged is True for sample in there),
        logged=min(counts, default=None),
    )


def _why(trial: Trial, run: RunRecord | None) -> str:
    if not trial.state.is_final:
        return f"{trial.run} is {trial.state.value}"
    why = f": {trial.reason}" if trial.reason else ""
    return f"{trial.run} {trial.state.value}{why}{_cause(run)}"


def _how(run: RunRecord) -> str:
    how = "is still " if not run.state.is_final else ""
    return f"{how}{run.state.value}" + (f": {run.reason}" if run.reason else "") + _cause(run)


def _cause(run: RunRecord | None) -> str:
    """The first known cause of a failure, which a CI system shows without the run's log."""
    causes = run.first_failure.causes if run and run.first_failure else []
    return f" ({causes[0].message})" if causes else ""


def _attempt(find: Callable[[], Found]) -> tuple[Found | None, RsctlError | None]:
    try:
        return find(), None
    except RsctlError as problem:
        return None, problem
