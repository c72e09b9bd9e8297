"""What a report has of one run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from rsctl.report.charts import is_empty
from rsctl.report.data import RunData
from rsctl.report.exchange_charts import gradient_charts, straggler_charts
from rsctl.report.html import (
    NONE,
    Child,
    Markup,
    details,
    element,
    facts,
    items,
    join,
    paragraph,
    preformatted,
    section,
    table,
)
from rsctl.report.page import Page
from rsctl.report.run_charts import (
    METRICS,
    machine_charts,
    metric_charts,
    timeline,
)
from rsctl.runs.records import RunRecord
from rsctl.stream.events import Failure, now, seconds_between
from rsctl.stream.formatting import format_bytes, format_duration, format_number
from rsctl.stream.ndjson import finite

DOCUMENT_LINES = 400
"""Lines of a request or a job file that are shown at most."""

FAILURE_LINES = 40
REPLICAS = 100
"""Replicas in tables at most."""

_NO_LINKS = "not known: the bandwidth of the links is not"
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
        *_findings(data),
        _charts(page, "Timeline", [timeline(data)], _phases(data), _states(data)),
        _charts(page, "Metrics", metric_charts(data), _figures(data), *_more_metrics(data)),
        _charts(page, "CPU, memory, network and GPU", machine_charts(data))
        or _absent("CPU, memory, network and GPU", "No node has reported what it uses."),
        _gradients(page, data),
        _charts(page, "Stragglers", straggler_charts(data)),
        section("What ran", *_what_ran(data), level=3),
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
    return _headline(failure, None) if failure else reason or "ended"


def failure_part(run: RunRecord, lines: int = FAILURE_LINES) -> Markup | None:
    """Which replica failed first, how, its last lines, known causes, and who failed in its wake."""
    failure = run.first_failure
    if failure is None:
        return None
    causes = [
        paragraph(element("strong", "Cause: "), c.message, _remedy(c.remedy))
        for c in failure.causes
    ]
    others = [r.replica for r in run.replicas if r.replica != failure.replica and r.exit_code]
    wake = ", ".join(others[:20]) + (f" and {len(others) - 20} more" if others[20:] else "")
    return section(
        "First failure",
        element(
            "div",
            paragraph(element("strong", _headline(failure, run))),
            *causes,
            preformatted(failure.lines[-lines:]) if failure.lines else None,
            paragraph(f"In its wake: {wake}") if others else None,
            class_="failure",
        ),
        level=3,
    )


def _headline(failure: Failure, run: RunRecord | None) -> str:
    rank = f" (rank {failure.rank})" if failure.rank is not None else ""
    how = f"killed by {failure.signal}" if failure.signal else f"exit code {failure.exit_code}"
    after = ""
    if run is not None:
        with suppress(ValueError):  # the time is as the job has reported it
            seconds = seconds_between(run.started or run.created, failure.time)
            after = f", {seconds:.1f} s after the start"
    return f"{failure.replica}{rank} failed first: {how} at {failure.time[11:19]} UTC{after}"


def _findings(data: RunData) -> Iterator[Markup]:
    if data.findings:
        texts = [
            join([element("strong", f"{f.severity}: "), f.message, _remedy(f.remedy)])
            for f in data.findings[:50]
        ]
        yield section("Findings", element("div", items(texts), class_="warning"), level=3)


def _remedy(remedy: str | None) -> str | None:
    return f" → {remedy}" if remedy else None


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
            _or_dash(r.exit_code),
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


def _or_dash(value: object) -> object:
    return NONE if value is None else value


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


def _gradients(page: Page, data: RunData) -> Markup:
    travel = data.gradients
    if travel is None:
        return _absent("Gradients", "No gradients went over reducers, so that none were measured.")
    wire, link, late = travel.wire_seconds, travel.link_gbps, travel.late_ms
    slow = f"rank {travel.latest_rank}, {late:.3g} ms a block on average" if late else None
    rows: list[tuple[str, object]] = [
        ("all-reduces of one rank", f"{travel.operations:,}"),
        ("bytes of one rank", format_bytes(travel.bytes)),
        ("a gradient was under way", f"{format_number(travel.seconds)} s"),
        ("the links allow at best", f"{format_number(wire)} s" if wire else _NO_LINKS),
        ("a ring would have needed (model)", _ring(travel.ring_seconds, travel.seconds)),
        ("sent meanwhile by the slowest rank", f"{travel.gbps:.3g} Gbit/s"),
        ("link of a node", f"{link:.3g} Gbit/s" if link else "not known"),
        ("window full", f"{travel.stalled:.0%} of that time"),
        ("reducers wait most for", slow),
    ]
    charts = [chart for chart in gradient_charts(data) if not is_empty(chart)]
    return section("Gradients", facts(rows), page.figures(charts), level=3)


def _ring(ring: float | None, measured: float) -> str:
    if not ring:
        return _NO_LINKS
    times = f" ({ring / measured:.2f} x as long)" if measured else ""
    return f"{format_number(ring)} s{times}"


def _what_ran(data: RunData) -> Iterator[Child]:
    run, plan = data.run, data.run.plan
    pools = plan.get("pools") or []
    yield facts(
        [
            ("run", run.run),
            ("address", run.url),
            ("world size", plan.get("world_size")),
            ("overrides", " ".join(f"--set {s}" for s in run.settings) or None),
            *(("image", value) for value in [_image(plan)] if value),
        ]
    )
    if pools:
        keys = ("role", "count", "machine", "accelerator", "gbps")
        rows = [[_or_dash(pool.get(key)) for key in keys] for pool in pools]
        yield table(("role", "nodes", "machine", "accelerator", "Gbit/s a node"), rows)
    if data.versions:
        names = list(dict.fromkeys(n for v in data.versions.values() for n in v))
        versions = [
            (replica, *(of.get(n, NONE) for n in names))
            for replica, of in list(data.versions.items())[:REPLICAS]
        ]
        yield details("Versions and machine of each replica", table(("replica", *names), versions))
    yield details(
        "Fingerprint",
        paragraph("Must be equal for a comparison", class_="faint"),
        facts(data.fixed.items()),
        paragraph("May differ", class_="faint"),
        facts(data.shown.items()),
    )
    specs = {name: msgspec.to_builtins(spec) for name, spec in run.metrics_spec.items()}
    if specs:
        yield details("Metrics as the job file defines them", document(specs))
    if plan.get("env"):
        yield details("Environment; the value of a secret is null", document(plan["env"]))
    if plan.get("request"):
        title = "Request as it was sent; the value of a secret is null"
        yield details(title, document(plan["request"]))


def _image(plan: Mapping[str, Any]) -> str | None:
    image = plan.get("image") or {}
    known = [f"transport {image['transport']}"] if image.get("transport") else []
    name = image.get("reference") or image.get("tag")
    return ", ".join([str(name or "none: plain processes"), *known]) if image else None


def document(value: Any) -> Markup:
    """Plain data as indented JSON, cut after so many lines, which is then stated."""
    text = msgspec.json.format(msgspec.json.encode(finite(value)), indent=2).decode()
    return text_document(text)


def text_document(text: str) -> Markup:
    """A text, cut after so many lines, which is then stated."""
    lines = text.split("\n")
    left = len(lines) - DOCUMENT_LINES
    more = [f"… {left:,} more lines"] if left > 0 else []
    return preformatted([*lines[:DOCUMENT_LINES], *more], longest=2000)
