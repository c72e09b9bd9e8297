"""The section on a run's gradients: bytes and times, compared with a ring."""

from __future__ import annotations

from rsctl.results.report.charts import is_empty
from rsctl.results.report.data import RunData
from rsctl.results.report.exchange_charts import gradient_charts, worker_nodes
from rsctl.results.report.html import Markup, facts, paragraph, section
from rsctl.results.report.page import Page
from rsctl.runs.stream.formatting import format_bytes, format_number
from rsctl.runs.stream.gradients import Gradients


def gradients_part(page: Page, data: RunData) -> Markup:
    """The transport's counts, or a note that no gradients were exchanged through reducers."""
    travel = data.gradients
    if travel is None:
        why = "No gradients were exchanged through reducers, so there are no measurements."
        return section("Gradients", paragraph(why, class_="faint"))
    wire, link, late = travel.wire_seconds, travel.link_gbps, travel.late_ms
    slow = f"rank {travel.latest_rank}, {late:.3g} ms per block on average" if late else None
    rows: list[tuple[str, object]] = [
        ("all-reduces per rank", f"{travel.operations:,}"),
        ("bytes per rank", format_bytes(travel.bytes)),
        ("a gradient was in progress", f"{format_number(travel.seconds)} s"),
        ("minimum that the links allow", f"{format_number(wire)} s" if wire else _why_not(data)),
        ("a ring would have needed (model)", _ring(data, travel)),
        ("sent in that time by the slowest rank", f"{travel.gbps:.3g} Gbit/s"),
        ("link per node", f"{link:.3g} Gbit/s" if link else "unknown"),
        ("window full", f"{travel.stalled:.0%} of that time"),
        ("reducers wait longest for", slow),
    ]
    charts = [chart for chart in gradient_charts(data) if not is_empty(chart)]
    return section("Gradients", facts(rows), page.figures(charts))


def _ring(data: RunData, travel: Gradients) -> str:
    if not travel.ring_seconds:
        return _why_not(data)
    times = ""
    if travel.seconds:
        times = f" ({travel.ring_seconds / travel.seconds:.2f} x as long)"
    return f"{format_number(travel.ring_seconds)} s{times}"


def _why_not(data: RunData) -> str:
    nodes, ranks = worker_nodes(data), data.run.plan.get("world_size")
    if nodes == 1:
        return "unknown: a single worker has no ring"
    if nodes != ranks and not data.is_rehearsed:
        return "unknown: the model covers only workers with one rank each"
    return "unknown: the bandwidth of the links is unknown"
