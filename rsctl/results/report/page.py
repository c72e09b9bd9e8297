"""The page of a report: its head with the content security policy, its charts, its sections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rsctl.findings import counted
from rsctl.results.report import palette
from rsctl.results.report.chart_tables import data_table
from rsctl.results.report.charts import (
    LINES,
    Chart,
    LineChart,
    Timeline,
    extremes,
    is_empty,
    legend,
    most_rows,
    row_labels,
    single_values,
)
from rsctl.results.report.documents import document
from rsctl.results.report.drawing import chart_svg, line_style
from rsctl.results.report.html import (
    Child,
    Markup,
    details,
    element,
    items,
    join,
    paragraph,
    plain,
    table,
)
from rsctl.results.report.scales import beyond_note
from rsctl.runs.stream.formatting import format_number

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "form-action 'none'; base-uri 'none'"
)
"""The content that a page may load or run: its own styles and images, no scripts."""


class Page:
    """Builds a report and keeps its charts, in their order, for separate files."""

    def __init__(self) -> None:
        self.charts: list[Chart] = []
        self.size = 0
        self._sections: list[Markup] = []
        self._links: list[tuple[str, str]] = []

    def add(self, title: str, *children: Child) -> None:
        """Add a section, with a link to it at the top of the page."""
        name = f"s{len(self._sections) + 1}"
        section = element("section", element("h2", title), *children, id=name)
        self._sections.append(section)
        self._links.append((name, plain(title, 80)))
        self.size += len(section.encode())

    @property
    def sections(self) -> list[Markup]:
        """The sections so far."""
        return list(self._sections)

    def figures(self, charts: Iterable[Chart]) -> Markup | None:
        """Charts side by side where there is room; those without data are left out."""
        drawn = [self._figure(chart) for chart in charts if not is_empty(chart)]
        return element("div", *drawn, class_="charts") if drawn else None

    def _figure(self, chart: Chart) -> Markup:
        self.charts.append(chart)
        single = single_values(chart)
        caption = element("figcaption", chart.title, None if single else _legend(chart))
        beyond = max(0, len(row_labels(chart)) - most_rows(chart))
        left = f"Not drawn: {counted(beyond, 'more row')}." if beyond else ""
        far = beyond_note(chart) if isinstance(chart, LineChart) else ""
        text = " ".join(filter(None, [chart.note, extremes(chart), far, left]))
        note = paragraph(text, class_="faint") if text else None
        wide_class = "wide" if isinstance(chart, Timeline) else None
        return element(
            "figure",
            caption,
            *(_values(single) if single else self.drawn(chart)),
            note,
            self.table_of(chart),
            class_=wide_class,
        )

    def run_name(self, run: str) -> Child:
        """The name of a run in a table."""
        return run

    def job_file(self, spec: Mapping[str, Any]) -> Markup | None:
        """The job file of a bench, folded."""
        return details("Job file, with the overrides of --set", document(spec))

    def drawn(self, chart: Chart) -> list[Markup]:
        """The drawings of the chart that was added last."""
        drawings = [chart_svg(chart, f"c{len(self.charts)}-")]
        if isinstance(chart, Timeline):  # for phones the narrow one, with letters of legible size
            wide = chart_svg(chart, f"w{len(self.charts)}-", is_wide=True)
            drawings = [
                element("div", drawings[0], class_="narrow"),
                element("div", wide, class_="broad"),
            ]
        return drawings

    def table_of(self, chart: Chart) -> Markup | None:
        """The data of a chart as a table, folded."""
        head, rows, total = data_table(chart)
        shown = f", {len(rows)} of {total:,} rows" if total > len(rows) else ""
        return details(f"Data as a table{shown}", table(head, rows))

    def html(self, title: str, introduction: Sequence[Child], remark: str) -> str:
        """The whole document."""
        head = join(
            [
                element("meta", charset="utf-8"),
                Markup(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
                element("meta", name="viewport", content="width=device-width, initial-scale=1"),
                element("meta", name="referrer", content="no-referrer"),
                element("title", plain(title, 120)),
                Markup(f"<style>{style_sheet()}</style>"),
            ]
        )
        links = [element("a", text, href=f"#{name}") for name, text in self._links]
        body = [
            element("header", element("h1", title), *introduction),
            element("nav", items(links), aria_label="Sections") if links[1:] else None,
            element("main", *self._sections),
            element("footer", paragraph(remark, class_="faint")),
        ]
        document = element("html", element("head", head), element("body", *body), lang="en")
        return f"<!doctype html>\n{document}\n"


def left_out(
    count: int, noun: str, how: str = "not shown here", plural: str | None = None
) -> Markup | None:
    """A remark on so many things that are left out, if there are any."""
    what = counted(count, f"more {noun}", plural and f"more {plural}")
    return paragraph(f"{what} {how}", class_="faint") if count > 0 else None


def style_sheet() -> str:
    """The colours and the style of a page, as CSS."""
    style = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
    return (
        f":root{{{palette.css(is_dark=False)}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{palette.css(is_dark=True)}}}}}"
        f"{palette.classes()}{style}"
    )


def _values(single: Sequence[tuple[str, float]]) -> list[Markup]:
    """A text in place of a drawing that would have points at one position alone."""
    shown = [f"{plain(label, 60)} {format_number(value)}" for label, value in single[:LINES]]
    more = [f"{len(single) - LINES} more"] if len(single) > LINES else []
    return [paragraph(f"One value, no line: {', '.join([*shown, *more])}")]


def _legend(chart: Chart) -> Markup | None:
    labels = legend(chart)
    if not labels:
        return None
    entries = [
        element("li", _swatch(chart, label, index), plain(label, 80))
        for index, label in enumerate(labels)
    ]
    return element("ul", *entries, class_="legend")


def _swatch(chart: Chart, label: str, index: int) -> Markup:
    if isinstance(chart, Timeline):
        color = palette.KINDS.get(label, palette.FAINT)
        is_mark = any(mark.kind == label for row in chart.rows for mark in row.marks)
        if is_mark:
            symbol = palette.MARKERS.get(label, ("o", "●"))[1]
            return element("span", f"{symbol} ", class_=f"in-{color.name}")
        return _block(color, 1.0)
    color, dashes = line_style(chart, index)
    if isinstance(chart, LineChart) and chart.is_band and index == 1:
        return _block(color, 0.25)
    pattern = f' stroke-dasharray="{" ".join(f"{1.6 * d:g}" for d in dashes)}"' if dashes else ""
    return Markup(
        '<svg viewBox="0 0 26 11" aria-hidden="true"><path d="M0 6H26" stroke-width="2.4"'
        f' stroke="var(--{color.name})"{pattern}/></svg>'
    )


def _block(color: palette.Color, opacity: float) -> Markup:
    # A drawing and no background, which browsers do not print.
    return Markup(
        '<svg viewBox="0 0 26 11" aria-hidden="true">'
        f'<rect width="26" height="11" fill="var(--{color.name})" opacity="{opacity:g}"/></svg>'
    )
