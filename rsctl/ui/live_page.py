"""A page of a report whose charts are data that the browser draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from rsctl.results.report.charts import Chart
from rsctl.results.report.html import Child, Markup, element
from rsctl.results.report.page import Page
from rsctl.ui.plots import plot_of


class LivePage(Page):
    """A page with a place for each chart; `plots` are the charts, in the order of places."""

    def __init__(self, heading: str | None = None) -> None:
        """`heading` is the title of a section that the page above it has already."""
        super().__init__()
        self._heading = heading
        self.plots: list[dict[str, Any]] = []

    def add(self, title: str, *children: Child) -> None:
        """Add a section."""
        heading = None if title == self._heading else element("h2", title)
        self._sections.append(element("section", heading, *children))

    def run_name(self, run: str) -> Child:
        """A link to the page of a run."""
        return element("a", run, href=f"/run/{quote(run, safe='')}")

    def job_file(self, spec: Mapping[str, Any]) -> None:
        """Nothing: the live page does not show job files."""

    def drawn(self, chart: Chart) -> list[Markup]:
        """The place of a chart."""
        self.plots.append(plot_of(chart))
        return [element("div", class_="plot", data_plot=str(len(self.plots) - 1))]

    def table_of(self, chart: Chart) -> None:
        """No table: the browser shows the values under the pointer."""
