"""Puts a report together of runs, benches and baselines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Union

from rsctl import __version__
from rsctl.bench.figures import Figure, figures
from rsctl.bench.records import Bench
from rsctl.bench.results import Results, bench_results, run_results
from rsctl.bench.rules import rules_of
from rsctl.bench.verdict import Floor
from rsctl.findings import RsctlError
from rsctl.report.bench_charts import BenchData, phase_row
from rsctl.report.bench_section import add_bench
from rsctl.report.charts import DRAWN, Chart, Timeline
from rsctl.report.comparison_section import add_comparison
from rsctl.report.data import collect
from rsctl.report.html import Child, details, items, paragraph, table
from rsctl.report.page import Page
from rsctl.report.run_section import cost_text, run_parts, state_mark
from rsctl.runs.records import RunRecord
from rsctl.runs.store import Store
from rsctl.stream.events import now
from rsctl.stream.formatting import format_number

Source = Union[RunRecord, Bench, Results]
"""What a report is made of; results are those of a baseline."""

WHOLE_RUNS = 4
"""Runs with a section of their own at most, if there are more than `ALL_WHOLE`."""

ALL_WHOLE = 6
MOST_BYTES = 1_500_000
"""Beyond this a report gets no further section of a run, so that it stays below 2 MB."""

_COLUMNS = 4
_THINNED = (
    f" Lines are drawn with at most {DRAWN} points, the highest and the lowest of each stretch "
    "among them; the tables behind charts have evenly spread rows."
)


class Report:
    """A report as HTML, and its charts."""

    def __init__(self, html: str, charts: Sequence[Chart], left_out: Sequence[str]) -> None:
        self.html = html
        self.charts = charts
        self.left_out = left_out


def make_report(
    store: Store, sources: Sequence[Source], locations: Mapping[str, Mapping[str, str]]
) -> Report:
    """The report of these sources. `locations` are those of the results, by run.

    Raises RsctlError if matplotlib is not installed, and StoreError.
    """
    page = Page()
    runs = [source for source in sources if isinstance(source, RunRecord)]
    if runs[1:]:
        _add_runs(page, store, runs)
    if sources[1:]:
        sides = [_results(store, source) for source in sources]
        add_comparison(page, sides, _floors(sources))
    for source in sources:
        if isinstance(source, Bench):
            add_bench(page, _bench_data(store, source))
    left_out = _add_whole_runs(page, store, runs, locations)
    labels = [_label(source) for source in sources]
    title = f"rsctl report: {', '.join(labels[:3])}{' …' if labels[3:] else ''}"
    made = f"Made {now()[:19].replace('T', ' ')} UTC by rsctl {__version__} of {_counted(sources)}."
    introduction: list[Child] = [paragraph(made, _THINNED, class_="faint")]
    if left_out:
        why = "Without a section of their own, for the size of this file; rsctl report RUN has it:"
        names = [*left_out[:100], *([f"and {len(left_out) - 100} more"] if left_out[100:] else [])]
        introduction += [
            details(f"{len(left_out)} runs have no section", paragraph(why), items(names))
        ]
    return Report(page.html(title, introduction), page.charts, left_out)


def _label(source: Source) -> str:
    if isinstance(source, Results):
        return source.label
    return source.run if isinstance(source, RunRecord) else source.bench


def _counted(sources: Sequence[Source]) -> str:
    counts = {
        "run": sum(isinstance(s, RunRecord) for s in sources),
        "bench": sum(isinstance(s, Bench) for s in sources),
        "baseline": sum(isinstance(s, Results) for s in sources),
    }
    plurals = {"run": "runs", "bench": "benches", "baseline": "baselines"}
    return " and ".join(
        f"{count} {name if count == 1 else plurals[name]}"
        for name, count in counts.items()
        if count
    )


def _results(store: Store, source: Source) -> Results:
    if isinstance(source, Results):
        return source
    return (
        run_results(store, source)
        if isinstance(source, RunRecord)
        else bench_results(store, source)
    )


def _floors(sources: Sequence[Source]) -> Mapping[str, Floor]:
    """What the job file of the last bench allows as a regression."""
    benches = [source for source in sources if isinstance(source, Bench)]
    if not benches:
        return {}
    try:
        return rules_of(benches[-1].spec.get("gate") or {}).floors
    except (RsctlError, AttributeError):  # as an older or newer version has written it
        return {}


def _bench_data(store: Store, bench: Bench) -> BenchData:
    names = [trial.run for trial in bench.latest().values()]
    runs = {name: run for name in names if (run := store.get(name)) is not None}
    return BenchData(bench, runs, {name: figures(store, run) for name, run in runs.items()})


def _add_runs(page: Page, store: Store, runs: Sequence[RunRecord]) -> None:
    """A table of all runs with their figures, and their phases."""
    found = {run.run: figures(store, run) for run in runs}
    names = _worth_a_column(found.values())
    rows = [
        (
            *(run.run, state_mark(run.state.value), run.target, run.created[:19].replace("T", " ")),
            *(_figure(found[run.run].get(name)) for name in names),
            cost_text((found[run.run]["run.cost"].value, found[run.run]["run.cost"].reason)),
        )
        for run in runs
    ]
    head = ("run", "state", "target", "submitted (UTC)", *names, "cost")
    phases = Timeline(
        "Queue, start, first metric, training", [phase_row(r.run, found[r.run]) for r in runs]
    )
    page.add("Runs", table(head, rows), page.figures([phases]))


def _worth_a_column(all_figures: Iterable[Mapping[str, Figure]]) -> list[str]:
    names: dict[str, None] = {}
    for found in all_figures:
        names |= dict.fromkeys(n for n in found if not n.startswith("run."))
    return [*list(names)[:_COLUMNS], "run.time"]


def _figure(figure: Figure | None) -> str:
    if figure is None or figure.value is None:
        return "no data"
    return format_number(figure.value) + (f" {figure.unit}" if figure.unit else "")


def _add_whole_runs(
    page: Page, store: Store, runs: Sequence[RunRecord], locations: Mapping[str, Mapping[str, str]]
) -> list[str]:
    """Sections of runs, of those first that failed; returns the names of those left out."""
    chosen = list(runs)
    if len(runs) > ALL_WHOLE:
        chosen = sorted(runs, key=lambda run: run.first_failure is None)[:WHOLE_RUNS]
    drawn = set()
    for run in chosen:
        if page.size < MOST_BYTES:
            page.add(
                f"Run {run.run}", *run_parts(page, collect(store, run, locations.get(run.run, {})))
            )
            drawn.add(run.run)
    return [run.run for run in runs if run.run not in drawn]
