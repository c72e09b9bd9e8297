"""The section of a report about one run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from rsctl.estimate.costs.limit import dollars
from rsctl.findings import counted
from rsctl.results.report.data import RunData
from rsctl.results.report.exchange_charts import straggler_charts
from rsctl.results.report.failure_section import failure_part, findings_part, headline
from rsctl.results.report.gpu_charts import gpu_charts
from rsctl.results.report.gradient_section import gradients_part
from rsctl.results.report.html import Child, Markup, details, facts, paragraph, section, table
from rsctl.results.report.origin_section import origin_parts
from rsctl.results.report.page import Page, left_out
from rsctl.results.report.profile_section import profiles_part
from rsctl.results.report.result_section import cost_text, result_cards, sample_table, state_mark
from rsctl.results.report.run_charts import (
    METRICS,
    cloud_charts,
    machine_charts,
    metric_charts,
    timeline,
)
from rsctl.runs.goodput import CAUSES
from rsctl.runs.goodput_records import Goodput
from rsctl.runs.stream.events import Failure
from rsctl.runs.stream.formatting import format_duration

REPLICAS = 100
"""Replicas in tables at most."""

_PHASES = {
    "queue": "queued",
    "start": "starting",
    "first_step": "running, until the first metric",
    "time": "running, in total",
    "total": "from the submission to the end",
}


def run_parts(page: Page, data: RunData) -> list[Child]:
    """The parts of a run's section, in their order: its results first, its origin last."""
    origin = section("Origin", run_facts(data), *origin_parts(data))
    return [*chain.from_iterable(named_parts(page, data).values()), origin]


def named_parts(page: Page, data: RunData) -> dict[str, list[Child]]:
    """The parts of a run's section by name, in their order, without its origin."""
    return {
        "results": [result_cards(data)],
        "problems": [failure_part(data.run), *findings_part(data)],
        "metrics": [
            _charts(page, "Metrics", metric_charts(data), *sample_table(data), *_more_metrics(data))
        ],
        "timeline": [_charts(page, "Timeline", [timeline(data)], *_phases(data), _states(data))],
        "goodput": [_goodput(data.goodput)],
        "machines": [
            _charts(
                page,
                "CPU, memory, network and GPU",
                chain(machine_charts(data), gpu_charts(data), cloud_charts(data)),
            )
            or section(
                "CPU, memory, network and GPU",
                paragraph("No node has reported its resource usage.", class_="faint"),
            )
        ],
        "gradients": [gradients_part(page, data)],
        "stragglers": [_charts(page, "Stragglers", straggler_charts(data))],
        "profiles": [profiles_part(data)],
    }


def _charts(page: Page, title: str, charts: Iterable[Any], *more: Child) -> Markup | None:
    drawn = page.figures(charts)
    if drawn is None and not any(more):
        return None
    return section(title, drawn, *more)


def run_facts(data: RunData) -> Markup:
    """The target, the times, the cost and the locations of a run's results."""
    run = data.run
    pairs: list[tuple[str, object]] = [
        ("target", run.target + (", a rehearsal on this machine" if data.is_rehearsed else "")),
        ("submitted", run.created),
        ("started", run.started or "unknown"),
        ("ended", run.ended or "not yet"),
        ("cost", cost_text(data.cost)),
        ("attempts", run.attempt if run.attempt > 1 else None),
        *((f"attempt {a.attempt}", _attempt(a.reason, a.failure)) for a in run.attempts),
        *((fact.name.replace("_", " "), fact.text) for fact in run.facts),
        *data.locations.items(),
    ]
    return facts(pairs)


def _attempt(reason: str | None, failure: Failure | None) -> str:
    return headline(failure, None) if failure else reason or "ended"


def _phases(data: RunData) -> list[Child]:
    found = [(title, *data.phases.get(n, (None, "not measured"))) for n, title in _PHASES.items()]
    rows = [(title, _seconds(value)) for title, value, _ in found if value is not None]
    lacking = [(title, why) for title, value, why in found if value is None]
    return [
        table(("phase", "time"), rows) if rows else None,
        details(f"{counted(len(lacking), 'phase')} unknown", table(("", "reason"), lacking))
        if lacking
        else None,
    ]


def _goodput(found: Goodput) -> Markup | None:
    """The paid time by cause, and the time that is not paid."""
    if not found.parts:
        return None
    rows: list[tuple[object, ...]] = [
        (
            CAUSES[cause],
            _seconds(part.seconds),
            f"{part.seconds / found.seconds:.1%}",
            None if part.dollars is None else dollars(part.dollars),
        )
        for cause, part in found.parts.items()
    ]
    rows += [
        (f"{CAUSES[cause]}, not counted", _seconds(seconds), None, None)
        for cause, seconds in found.unpaid.items()
    ]
    why = f"Unknown: {found.unknown}." if found.unknown else None
    if found.share is not None:
        why = f"{found.share:.1%} of the paid time went into new steps."
    until = found.until and f" By the log until {found.until[:19].replace('T', ' ')} UTC."
    head = ("cause", "time", "part of the paid time", "cost")
    return section("Goodput", paragraph(why, until), table(head, rows, only_filled=True))


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value < 100 else format_duration(value)


def _states(data: RunData) -> Markup | None:
    rows = [
        (r.replica, state_mark(r.state.value), r.since[11:19], r.exit_code, r.reason or "")
        for r in data.run.replicas[:REPLICAS]
    ]
    if not rows:
        return None
    more = left_out(len(data.run.replicas) - len(rows), "replica")
    head = ("replica", "state", "since (UTC)", "exit code", "reason")
    return details(
        f"States of {counted(len(data.run.replicas), 'replica')}", table(head, rows), more
    )


def _more_metrics(data: RunData) -> Iterator[Markup]:
    names = data.logged()[METRICS:]
    if names:
        listed = ", ".join(names[:100]) + (" …" if names[100:] else "")
        yield details(f"{counted(len(names), 'more metric')} not drawn", paragraph(listed))
