"""What a report has of one run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from rsctl.report.data import RunData
from rsctl.report.exchange_charts import straggler_charts
from rsctl.report.failure_section import failure_part, findings_part, headline
from rsctl.report.gpu_charts import gpu_charts
from rsctl.report.gradient_section import gradients_part
from rsctl.report.html import Child, Markup, details, element, facts, paragraph, section, table
from rsctl.report.origin_section import origin_parts
from rsctl.report.page import Page
from rsctl.report.run_charts import METRICS, cloud_charts, machine_charts, metric_charts, timeline
from rsctl.stream.events import Failure, now, seconds_between
from rsctl.stream.formatting import format_bytes, format_duration, format_number

REPLICAS = 100
"""Replicas in tables at most."""

_PHASES = {
    "queue": "queued",
    "start": "starting",
    "first_step": "running, until the first metric",
    "time": "running, in all",
    "total": "from the submission to the end",
}


def run_parts(page: Page, data: RunData) -> list[Child]:
    """The parts of a run's section, in their order."""
    return [
        _head(data),
        failure_part(data.run),
        *findings_part(data),
        _charts(page, "Timeline", [timeline(data)], _phases(data), _states(data)),
        _charts(page, "Metrics", metric_charts(data), _figures(data), *_more_metrics(data)),
        _charts(
            page,
            "CPU, memory, network and GPU",
            chain(machine_charts(data), gpu_charts(data), cloud_charts(data)),
        )
        or _absent("CPU, memory, network and GPU", "No node has reported what it uses."),
        gradients_part(page, data),
        _charts(page, "Stragglers", straggler_charts(data)),
        section("What ran", *origin_parts(data), level=3),
    ]


def _charts(page: Page, title: str, charts: Iterable[Any], *more: Child) -> Markup | None:
    drawn = page.figures(charts)
    if drawn is None and not any(more):
        return None
    return section(title, drawn, *more, level=3)


def _absent(title: str, why: str) -> Markup:
    return section(title, paragraph(why, class_="faint"), level=3)


def _head(data: RunData) -> Markup:
    run = data.run
    took = format_duration(seconds_between(run.created, run.ended or now()))
    pairs: list[tuple[str, object]] = [
        ("state", state_mark(run.state.value)),
        ("reason", run.reason),
        ("exit code", run.exit_code),
        ("target", run.target + (", a rehearsal on this machine" if data.is_rehearsed else "")),
        ("submitted", run.created),
        ("started", run.started or "not known"),
        ("ended", run.ended or "not yet"),
        ("took", took),
        ("cost", cost_text(data.cost)),
        ("attempts", run.attempt if run.attempt > 1 else None),
        *((f"attempt {a.attempt}", _attempt(a.reason, a.failure)) for a in run.attempts),
        *((fact.name.replace("_", " "), fact.text) for fact in run.facts),
        *data.locations.items(),
    ]
    return facts(pairs)


def state_mark(state: str) -> Markup:
    """A state in its colour."""
    return element("span", state, class_=f"state {state}")


def cost_text(cost: tuple[float | None, str | None]) -> str:
    """`12.30 USD, by the catalogue's prices`, or why it is not known."""
    if cost[0] is None:
        return f"not known: {cost[1]}"
    return f"{cost[0]:,.2f} USD, by the catalogue's prices"


def _attempt(reason: str | None, failure: Failure | None) -> str:
    return headline(failure, None) if failure else reason or "ended"


def _phases(data: RunData) -> Markup:
    rows = [
        (title, f"{value:.3g} s" if value is not None else f"not known: {why}")
        for name, title in _PHASES.items()
        for value, why in [data.phases.get(name, (None, "not measured"))]
    ]
    return table(("phase of the last attempt", "time"), rows)


def _states(data: RunData) -> Markup | None:
    rows = [
        (
            r.replica,
            state_mark(r.state.value),
            r.since[11:19],
            r.exit_code,
            r.reason or "",
        )
        for r in data.run.replicas[:REPLICAS]
    ]
    if not rows:
        return None
    left = len(data.run.replicas) - len(rows)
    more = paragraph(f"{left} more are left out here", class_="faint") if left > 0 else None
    head = ("replica", "state", "since (UTC)", "exit code", "reason")
    return details(f"States of {len(data.run.replicas)} replicas", table(head, rows), more)


def _figures(data: RunData) -> Markup | None:
    """One figure a metric: what comparisons and gates use."""
    rows = []
    for name, figure in data.figures.items():
        if figure.value is None:
            rows.append((name, f"no data: {figure.reason}", "", "", ""))
            continue
        unit = f" {figure.unit}" if figure.unit else ""
        how = f"{figure.aggregate}, warm-up {figure.warmup}" if figure.aggregate else ""
        spread = format_number(figure.spread) if figure.spread is not None else ""
        count = f"{figure.n} of {figure.total}"
        value = (
            format_bytes(int(figure.value)) if unit == " B" else format_number(figure.value) + unit
        )
        rows.append((name, value, spread, count, how))
    head = ("metric", "figure of the run", "interquartile range", "values", "aggregate")
    return table(head, rows[:60]) if rows else None


def _more_metrics(data: RunData) -> Iterator[Markup]:
    names = data.logged()[METRICS:]
    if names:
        listed = ", ".join(names[:100]) + (" …" if names[100:] else "")
        yield paragraph(f"Not drawn: {len(names)} more metrics", class_="faint")
        yield details("Their names", paragraph(listed))
