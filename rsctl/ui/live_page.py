"""A page of a report whose charts are data that the browser draws."""

from __future__ import annotations

from typing import Any

from rsctl.results.report.charts import Chart
from rsctl.results.report.html import Markup, element
from rsctl.results.report.page import Page
from rsctl.ui.plots import plot_of


class LivePage(Page):
    """A page with a place for each chart; `plots` are the charts, in the order of places."""

    def __init__(self) -> None:
        super().__init__()
        self.plots: list[dict[str, Any]] = []

    def drawn(self, chart: Chart) -> list[Markup]:
        """The place of a chart."""
        self.plots.append(plot_of(chart))
        return [element("div", class_="plot", data_plot=str(len(self.plots) - 1))]

    def table_of(self, chart: Chart) -> None:
        """No table: the browser shows the values under the pointer."""
