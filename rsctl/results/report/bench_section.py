"""The section of a report about one bench: its cells, heat maps, scaling, phases, failures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from rsctl.bench.samples import quantile
from rsctl.bench.summary import (
    CellStatistic,
    counts,
    done,
    format_cell,
    format_trial,
    state_text,
)
from rsctl.estimate.costs.limit import dollars
from rsctl.findings import JobState, counted
from rsctl.results.report.bench_charts import (
    BenchData,
    dots_chart,
    effect_charts,
    learning_curves,
    matrix_charts,
    phases_chart,
    scaling_charts,
)
from rsctl.results.report.charts import Chart
from rsctl.results.report.html import Child, element, facts, paragraph, preformatted, table
from rsctl.results.report.page import Page, left_out
from rsctl.results.report.result_section import card, state_mark, with_unit
from rsctl.runs.cost import is_billed

FAILURES = 10
"""Failed runs whose last lines are shown at most."""


def add_bench(page: Page, data: BenchData) -> None:
    """The section of a bench."""
    bench = data.bench
    names = data.names()
    page.add(
        f"Bench {bench.bench}",
        _cards(data, names),
        _cells(data, names),
        *_part(page, "Matrix", (chart for name in names for chart in matrix_charts(data, name))),
        *_part(page, "Learning curves", learning_curves(data)),
        *_part(page, "Runs of each cell", (dots_chart(data, name) for name in names)),
        *_part(page, "Cells against the first cell", effect_charts(data, names)),
        *_scaling(page, data),
        *_part(page, "Phases of each run", [phases_chart(data)]),
        *_failures(data),
        element("h3", "Origin"),
        facts(
            [
                ("target", bench.target),
                (
                    "cells",
                    f"{counted(len(bench.cells), 'cell')}, each {counted(bench.repeat, 'time')}",
                ),
                ("started", bench.created),
                ("ended", bench.ended or "not yet"),
                *(("image", image) for image in bench.images.values()),
            ]
        ),
        page.job_file(bench.spec),
    )


def _cards(data: BenchData, names: Sequence[str]) -> Child:
    """The state, the cost if runs are billed, and of each metric with a goal the best cell."""
    bench = data.bench
    cards = [
        card("state", state_mark(state_text(bench)), None),
        card(
            "runs",
            f"{done(bench)} of {len(bench.cells) * bench.repeat}",
            f"succeeded, in {counted(len(bench.cells), 'cell')}",
        ),
    ]
    if any(map(is_billed, data.runs.values())):
        cards.append(card("cost", *_cost(data)))
    for name in names:
        unit, goal = data.about(name)
        medians = {
            format_cell(cell): quantile(values, 0.5)
            for cell, values in zip(bench.cells, data.values(name), strict=True)
            if values
        }
        if goal and len(medians) > 1 and not name.startswith("run."):
            best = (min if goal == "min" else max)(medians, key=medians.__getitem__)
            cards.append(card(f"best {name}", with_unit(medians[best], unit), best))
    return element("div", *cards, class_="cards")


def _part(page: Page, title: str, charts: Iterable[Chart], *more: Child) -> list[Child]:
    drawn = page.figures(charts)
    return [element("h3", title), *more, drawn] if drawn else []


def _cost(data: BenchData) -> tuple[str, str]:
    samples = [f["run.cost"] for f in data.samples.values() if "run.cost" in f]
    costs = [*((sample.value, sample.reason) for sample in samples), *data.repeated]
    known = [cost for cost, _ in costs if cost is not None]
    if not known:
        why = next((reason for _, reason in costs if reason), "no run has started")
        return "unknown", why
    left = len(costs) - len(known)
    lacking = f"; the cost of {counted(left, 'run')} is unknown" if left else ""
    return dollars(sum(known)), f"from the catalogue's prices{lacking}"


def _cells(data: BenchData, names: Sequence[str]) -> Child:
    head = ["cell", "runs", *map(data.title, names)]
    rows = []
    for index, cell in enumerate(data.bench.cells):
        numbers = counts(data.bench, index)
        parts = [f"{numbers.pop(JobState.SUCCEEDED, 0)}/{data.bench.repeat}"]
        parts += [f"{count} {state.value}" for state, count in numbers.items()]
        found = [data.cells[index].get(name, CellStatistic()) for name in names]
        statistics = [str(replace(statistic, unit=None)) for statistic in found]
        rows.append([format_cell(cell), ", ".join(parts), *statistics])
    return table(head, rows)


def _scaling(page: Page, data: BenchData) -> list[Child]:
    text = (
        "Efficiency is the throughput per rank, relative to the configuration with the fewest "
        "ranks. A throughput is assumed to be the total of all ranks."
    )
    charts = [chart for name in data.names() for chart in scaling_charts(data, name)]
    return _part(page, "Throughput and scaling", charts, paragraph(text, class_="faint"))


def _failures(data: BenchData) -> list[Child]:
    ended = [trial for trial in data.bench.latest().values() if trial.state.is_final]
    lost = [trial for trial in ended if trial.state is not JobState.SUCCEEDED]
    if not lost:
        return []
    parts: list[Child] = [element("h3", f"Failed runs: {len(lost)}")]
    for trial in lost[:FAILURES]:
        run = data.runs.get(trial.run)
        failure = run.first_failure if run else None
        where = format_trial(data.bench.cells, trial)
        title = element("strong", f"{trial.run} ({where}): ")
        head = paragraph(title, trial.reason or trial.state.value)
        lines = preformatted(failure.lines[-8:]) if failure and failure.lines else None
        parts.append(element("div", head, lines, class_="failure"))
    return [*parts, left_out(len(lost) - FAILURES, "run")]
