"""The results of a run: its state, cost and metrics, which readers look for first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress

from rsctl.bench.samples import Sample
from rsctl.estimate.costs.limit import dollars
from rsctl.findings import counted
from rsctl.results.report.data import RunData
from rsctl.results.report.html import Child, Markup, details, element, join, paragraph, table
from rsctl.runs.cost import is_billed
from rsctl.runs.records import RunRecord
from rsctl.runs.stream.events import MetricEvent, now, seconds_between
from rsctl.runs.stream.formatting import format_bytes, format_duration, format_number

CARDS = 6
"""The maximum number of metrics with a card."""

ROWS = 60
"""The maximum number of metrics in the table; measurements of every run always have rows."""

_LISTED = 100


def state_mark(state: str) -> Markup:
    """A state in its colour."""
    return element("span", state, class_=f"state {state}")


def cost_text(cost: tuple[float | None, str | None]) -> str:
    """`12.30 USD, by the catalogue's prices`, or why it is unknown."""
    if cost[0] is None:
        return f"unknown: {cost[1]}"
    return f"{dollars(cost[0])}, from the catalogue's prices"


def result_cards(data: RunData) -> Markup:
    """The state, the time, the cost if it is billed, and each metric's last and best value."""
    run = data.run
    took = "unknown"
    with suppress(ValueError):  # a time that is not one
        took = format_duration(seconds_between(run.created, run.ended or now()))
    of = "since the submission" if run.ended is None else "from the submission to the end"
    why = run.reason or (f"exit code {run.exit_code}" if run.exit_code is not None else None)
    cards = [card("state", state_mark(run.state.value), why), card("time", took, of)]
    if is_billed(run):
        cost = dollars(data.cost[0]) if data.cost[0] is not None else "unknown"
        cards.append(card("cost", cost, data.cost[1] or "from the catalogue's prices"))
    for name in data.logged()[:CARDS]:
        headline = data.headlines.get(name, ())
        if headline:
            value = with_unit(headline[-1].value, data.unit(name))
            cards.append(card(name, value, _best_text(run, name, headline)))
    return element("div", *cards, class_="cards")


def card(title: str, value: Child, more: str | None) -> Markup:
    """One result: its title, its value in large letters, and a remark."""
    return element(
        "div",
        paragraph(title, class_="faint"),
        element("p", value, class_="value"),
        paragraph(more, class_="faint") if more else None,
        class_="card",
    )


def with_unit(value: float, unit: str | None) -> Markup:
    """A value, and its unit in small letters."""
    return join(
        [format_number(value), element("span", f" {unit}", class_="unit") if unit else None]
    )


def best_of(goal: str | None, events: Sequence[MetricEvent]) -> MetricEvent | None:
    """The best value by a metric's goal; None without a goal or a finite value."""
    known = [event for event in events if math.isfinite(event.value)]
    if not known or goal not in ("min", "max"):
        return None
    return (min if goal == "min" else max)(known, key=lambda event: event.value)


def _best_text(run: RunRecord, name: str, headline: Sequence[MetricEvent]) -> str:
    last = headline[-1]
    at = f", at step {last.step}" if last.step is not None else ""
    spec = run.metrics_spec.get(name)
    best = best_of(spec.goal if spec else None, headline)
    if best is None:
        return f"last value{at}"
    if best.value == last.value:
        return f"last and best value{at}"
    where = f" at step {best.step}" if best.step is not None else ""
    return f"last value{at}; best {format_number(best.value)}{where}"


def sample_table(data: RunData) -> list[Child]:
    """Each metric's last value, best value, and the sample that comparisons and gates use."""
    own = [name for name in data.samples if not name.startswith("run.")]
    names = [*own[:ROWS], *(name for name in data.samples if name.startswith("run."))]
    known = [name for name in names if data.samples[name].value is not None]
    logged = [name for name in names if name not in known and data.headlines.get(name)]
    rows = [_row(data, name) for name in names if name in known or name in logged]
    lacking = [
        (name, data.samples[name].reason or "")
        for name in names
        if name not in known and name not in logged
    ]
    head = ("metric", "last", "best", "sample", "interquartile range", "values", "how")
    left = own[ROWS:]
    listed = ", ".join(left[:_LISTED]) + (" …" if left[_LISTED:] else "")
    return [
        table(head, rows) if rows else None,
        details(f"{counted(len(lacking), 'sample')} without data", table(("", "reason"), lacking))
        if lacking
        else None,
        details(f"{counted(len(left), 'more metric')}", paragraph(listed)) if left else None,
    ]


def _row(data: RunData, name: str) -> tuple[object, ...]:
    sample = data.samples[name]
    how = f"{sample.aggregate}, warm-up {sample.warmup}" if sample.aggregate else None
    return (
        name,
        *last_and_best(data.run, data.headlines, name),
        sample_text(sample),
        format_number(sample.spread) if sample.spread is not None else None,
        f"{sample.n:,} of {sample.total:,}" if sample.total != 1 else "1",
        how,
    )


def sample_text(sample: Sample | None) -> str:
    """`0.41 nats`, or that there is no data and why."""
    if sample is None:
        return "no data"
    if sample.value is None:
        return f"no data: {sample.reason}" if sample.reason else "no data"
    if sample.unit == "B":
        return format_bytes(int(sample.value))
    return format_number(sample.value) + (f" {sample.unit}" if sample.unit else "")


def last_and_best(
    run: RunRecord, headlines: Mapping[str, Sequence[MetricEvent]], name: str
) -> tuple[str | None, str | None]:
    """The last and the best value of a run's metric."""
    headline = headlines.get(name, ())
    spec = run.metrics_spec.get(name)
    best = best_of(spec.goal if spec else None, headline)
    return (
        format_number(headline[-1].value) if headline else None,
        format_number(best.value) if best else None,
    )
