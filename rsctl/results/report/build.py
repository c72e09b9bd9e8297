"""Puts a report together of runs, benches and baselines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import NamedTuple, Union

from msgspec.structs import replace

from rsctl import __version__
from rsctl.bench.decision import Decision, decision_about
from rsctl.bench.gate import Gate, together
from rsctl.bench.history_series import HistorySeries
from rsctl.bench.paired_results import own_results
from rsctl.bench.records import Benches, BenchRecord
from rsctl.bench.results import Results, run_results
from rsctl.bench.rules import rules_of
from rsctl.bench.samples import Sample
from rsctl.bench.verdict import Floor
from rsctl.findings import RsctlError, counted
from rsctl.results.report.bench_charts import BenchData, phase_row
from rsctl.results.report.bench_section import add_bench
from rsctl.results.report.charts import DRAWN, Chart, Timeline, thinned
from rsctl.results.report.comparison_section import add_comparison
from rsctl.results.report.data import collect
from rsctl.results.report.gate_section import add_gate
from rsctl.results.report.history_section import add_history
from rsctl.results.report.html import Child, details, items, paragraph, table
from rsctl.results.report.overlay_charts import RunCurves, metric_names, overlay_charts
from rsctl.results.report.page import Page
from rsctl.results.report.reading import Readings, read_values
from rsctl.results.report.result_section import last_and_best, sample_text, state_mark
from rsctl.results.report.run_section import run_parts
from rsctl.runs.cost import cost_of
from rsctl.runs.records import RunRecord
from rsctl.runs.store import Store
from rsctl.runs.stream.events import MetricEvent, now

Source = Union[RunRecord, BenchRecord, Results]
"""The sources of a report; results come from a baseline."""

WHOLE_RUNS = 4
"""The maximum number of runs with a separate section, if there are more than `ALL_WHOLE`."""

ALL_WHOLE = 6
MOST_BYTES = 1_500_000
"""Beyond this a report gets no further section of a run, so that it stays below 2 MB."""

_COLUMNS = 3
_THINNED = (
    f"Lines have at most {DRAWN} points, including the highest and the lowest of each segment; "
    "the tables behind charts have evenly spaced rows."
)


class Report(NamedTuple):
    """A report as HTML, and its charts; `left_out` are the runs without a section."""

    html: str
    charts: Sequence[Chart]
    left_out: Sequence[str]


def make_report(
    store: Store,
    sources: Sequence[Source],
    locations: Mapping[str, Mapping[str, str]],
    histories: Sequence[tuple[str, Sequence[HistorySeries]]] = (),
    gate: Gate | None = None,
    first: Callable[[Page], object] = lambda page: None,
) -> Report:
    """The report of these sources. `locations` are the locations of results, by run.

    `histories` are the series of histories, by their location. A `gate` without sources is one that
    has refused to run anything. `first` adds the section before all others.

    Raises StoreError.
    """
    page = Page()
    first(page)
    reader = _Reader(store)
    runs = [source for source in sources if isinstance(source, RunRecord)]
    if gate is not None and not sources:
        add_gate(page, Decision(gate=gate, time=now()))
    _add_overview(page, reader, sources)
    for location, series in histories:
        add_history(page, location, series)
    left_out = _add_whole_runs(page, reader, runs, locations)
    labels = [*map(_label, sources), *(location for location, _ in histories)]
    labels += [gate.candidate] if gate is not None and not sources else []
    title = f"rsctl report: {', '.join(labels[:3])}{' …' if labels[3:] else ''}"
    made = (
        f"Created {now()[:19].replace('T', ' ')} UTC by rsctl {__version__} from "
        f"{_counted(sources, len(histories))}."
    )
    introduction: list[Child] = [paragraph(made, class_="faint")]
    if left_out:
        why = "Without a section here, to limit the size of this file; rsctl report RUN shows them:"
        names = [*left_out[:100], *([f"and {len(left_out) - 100} more"] if left_out[100:] else [])]
        introduction += [
            details(
                f"{counted(len(left_out), 'run')} without a section", paragraph(why), items(names)
            )
        ]
    return Report(page.html(title, introduction, _THINNED), page.charts, left_out)


def add_overview(page: Page, store: Store, sources: Sequence[Source]) -> None:
    """Add what the sources have in common, their comparison and the sections of benches.

    Raises StoreError.
    """
    _add_overview(page, _Reader(store), sources)


def _add_overview(page: Page, reader: _Reader, sources: Sequence[Source]) -> None:
    decision = _decision_about(sources)
    if decision is not None:
        add_gate(page, decision)
        sources = _judged(reader.store, decision)
    runs = [source for source in sources if isinstance(source, RunRecord)]
    if runs[1:]:
        _add_runs(page, reader, runs)
    sides = [_results(reader, source) for source in sources] if sources[1:] else []
    if decision is None and sides:
        add_comparison(page, sides, _floors(sources))
    elif decision is not None and decision.baseline is not None and sides[1:]:
        before, after = decision.baseline, sides[1]
        for fresh in sides[2:]:
            after = replace(together(after, fresh), label=f"{after.label} with {fresh.label}")
        add_comparison(page, [before, after], {})
    for source in sources:
        if isinstance(source, BenchRecord):
            add_bench(page, reader.bench(source))


def _decision_about(sources: Sequence[Source]) -> Decision | None:
    """The decision of a gate about exactly these sources or one of its benches; None if none is."""
    benches = [source.bench for source in sources if isinstance(source, BenchRecord)]
    for bench in reversed(benches):
        decision = decision_about(bench)
        if decision is not None and all(_is_part(source, decision) for source in sources):
            return decision
    return None


def _is_part(source: Source, decision: Decision) -> bool:
    baseline = decision.baseline
    if isinstance(source, BenchRecord):
        name = baseline.label if baseline is not None and baseline.kind == "bench" else None
        return source.bench in decision.benches or source.bench == name
    if baseline is None or not isinstance(source, Results):
        return False
    return replace(source, label="") == replace(baseline, label="")  # by another path, perhaps


def _judged(store: Store, decision: Decision) -> list[Source]:
    """The baseline, if it ran apart, and the benches of a decision. Raises StoreError."""
    benches = [Benches(store).get(name) for name in decision.benches]
    known = [bench for bench in benches if bench is not None]
    return [*([decision.baseline] if decision.baseline is not None else []), *known]


def _label(source: Source) -> str:
    if isinstance(source, Results):
        return source.label
    return source.run if isinstance(source, RunRecord) else source.bench


def _counted(sources: Sequence[Source], histories: int) -> str:
    counts = [
        (sum(isinstance(s, RunRecord) for s in sources), "run", "runs"),
        (sum(isinstance(s, BenchRecord) for s in sources), "bench", "benches"),
        (sum(isinstance(s, Results) for s in sources), "baseline", "baselines"),
        (histories, "history", "histories"),
    ]
    return " and ".join(counted(*of_kind) for of_kind in counts if of_kind[0])


class _Reader:
    """Reads the values of each run once, and keeps the data for charts of several runs."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._curves: dict[str, RunCurves] = {}
        self._readings: dict[str, Readings] = {}

    def curves(self, run: RunRecord) -> RunCurves:
        """A run's samples and headline series. Raises StoreError."""
        if run.run not in self._curves:
            readings = self.readings(run)
            headlines = {
                name: _thinned(events) for name, events in readings.headline_series().items()
            }
            found = readings.samples.samples(self.store)
            self._curves[run.run] = RunCurves(run.run, run, found, headlines)
        return self._curves[run.run]

    def readings(self, run: RunRecord) -> Readings:
        """All of a run; those of a few runs are kept for their sections. Raises StoreError."""
        known = self._readings.get(run.run)
        if known is None:
            known = read_values(self.store, run)
            if len(self._readings) < ALL_WHOLE:
                self._readings[run.run] = known
        return known

    def bench(self, bench: BenchRecord) -> BenchData:
        """A bench with its runs. Raises StoreError."""
        counted = {trial.run for trial in bench.latest().values()}
        names = [trial.run for trial in bench.trials]
        runs = {name: run for name in names if (run := self.store.get(name)) is not None}
        return BenchData(
            bench,
            {name: self.curves(run) for name, run in runs.items() if name in counted},
            [cost_of(run) for name, run in runs.items() if name not in counted],
        )


def _thinned(events: Sequence[MetricEvent]) -> list[MetricEvent]:
    """As many as a chart draws, in their order, the first and the last among them."""
    finite_ones = [e for e in events if isfinite(e.value)] or list(events)
    kept = {int(x) for x, _ in thinned([(float(i), e.value) for i, e in enumerate(finite_ones)])}
    chosen = [event for index, event in enumerate(finite_ones) if index in kept]
    return chosen if not events or chosen[-1] is events[-1] else [*chosen, events[-1]]


def _results(reader: _Reader, source: Source) -> Results:
    if isinstance(source, Results):
        return source
    if isinstance(source, RunRecord):
        return run_results(reader.store, source, reader.curves(source).samples)
    return own_results(reader.store, source)


def _floors(sources: Sequence[Source]) -> Mapping[str, Floor]:
    """The regression that the job file of the last bench allows."""
    benches = [source for source in sources if isinstance(source, BenchRecord)]
    if not benches:
        return {}
    try:
        return rules_of(benches[-1].spec.get("gate") or {}).floors
    except (RsctlError, AttributeError):  # as an older or newer version has written it
        return {}


def _add_runs(page: Page, reader: _Reader, runs: Sequence[RunRecord]) -> None:
    """The results of all runs in a table, their metrics in common charts, and their phases."""
    curves = [reader.curves(run) for run in runs]
    shown = metric_names(curves)[:_COLUMNS]
    head = ["run", "state"]
    for name in shown:
        head += [name, f"best {name}", f"sample of {name}"]
    rows = []
    for curve in curves:
        run = curve.run
        row: list[str | None] = [page.run_name(curve.label), state_mark(run.state.value)]
        for name in shown:
            last, best = last_and_best(run, curve.headlines, name)
            row += [last, best, _known(curve.samples.get(name))]
        row += [_known(curve.samples.get("run.time")), _known(curve.samples["run.cost"])]
        rows.append([*row, run.target, run.created[:19].replace("T", " ")])
    head += ["time", "cost", "target", "submitted (UTC)"]
    phases = Timeline(
        "Queue, start, first metric, training",
        [phase_row(curve.label, curve.samples, curve.run) for curve in curves],
    )
    page.add(
        "Runs",
        table(head, rows, only_filled=True),
        page.figures(overlay_charts(curves)),
        page.figures([phases]),
    )


def _known(sample: Sample | None) -> str | None:
    return None if sample is None or sample.value is None else sample_text(sample)


def _add_whole_runs(
    page: Page,
    reader: _Reader,
    runs: Sequence[RunRecord],
    locations: Mapping[str, Mapping[str, str]],
) -> list[str]:
    """Sections of runs, of those first that failed; returns the names of those left out."""
    chosen = list(runs)
    if len(runs) > ALL_WHOLE:
        chosen = sorted(runs, key=lambda run: run.first_failure is None)[:WHOLE_RUNS]
    drawn = set()
    for run in chosen:
        if page.size < MOST_BYTES:
            where = locations.get(run.run, {})
            data = collect(reader.store, run, where, reader.readings(run))
            page.add(f"Run {run.run}", *run_parts(page, data))
            drawn.add(run.run)
    return [run.run for run in runs if run.run not in drawn]
