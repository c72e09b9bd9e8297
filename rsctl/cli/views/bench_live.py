"""The live view of a bench: failures scroll above one table of all cells."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from time import monotonic

from rich.console import Group
from rich.table import Table
from rich.text import Text

from rsctl.api import (
    Bench,
    BenchRecord,
    CellStatistic,
    MetricFeed,
    RunRecord,
    Sample,
    Store,
    Trial,
    cell_statistics,
    cost_of,
    format_cell,
)
from rsctl.cli.show import format_finding, remedy_line
from rsctl.cli.views.bench_plain import PlainBenchView
from rsctl.cli.views.status_lines import StatusLines
from rsctl.findings import Finding, JobState, counted
from rsctl.runs.stream.events import Event, now, seconds_between
from rsctl.runs.stream.formatting import format_duration, format_number
from rsctl.runs.stream.metrics import MetricSpec
from rsctl.runs.stream.sanitize import sanitize

_REDRAW_SECONDS = 0.25
_MAX_METRICS = 3
_MAX_ROWS = 40
_ANY = 1000  # columns: wider than any terminal
_STYLES = {"succeeded": "green", "failed": "red", "expired": "red", "cancelled": "yellow"}


class LiveBenchView(PlainBenchView):
    """The view for a terminal. `finish` draws the final table."""

    def __init__(self, specs: Mapping[str, MetricSpec]) -> None:
        super().__init__()
        self._specs = dict(specs)
        self._store = Store()
        self._started = monotonic()
        self._drawn = 0.0
        self._samples: dict[int, list[Mapping[str, Sample]]] = {}
        self._running: dict[str, tuple[Trial, MetricFeed]] = {}
        self._spent: dict[int, float] = {}
        self._times: dict[int, float] = {}
        self._live = StatusLines(sys.stdout, auto_refresh=False)

    def begin(self, bench: BenchRecord, todo: int, is_driven: bool) -> None:
        """Show the bench with the results of earlier calls."""
        super().begin(bench, todo, is_driven)
        for index, cell in enumerate(Bench(bench).summary()):
            for name in cell.runs:
                if run := self._store.get(name):
                    self._count(index, run)
            self._samples[index] = _as_runs(cell.metrics)

    def submitted(self, trial: Trial) -> None:
        """Show the run in the table."""
        self._live.start()
        self._running[trial.run] = trial, MetricFeed(trial.run, self._specs, self._store)

    def events(self, trial: Trial, events: list[Event]) -> None:
        """Keep the latest value of each metric."""
        super().events(trial, events)
        if trial.run in self._running:
            self._running[trial.run][1].rest()

    def ended(self, trial: Trial, run: RunRecord | None, samples: Mapping[str, Sample]) -> None:
        """Print a failure immediately; show a success in the table."""
        self._running.pop(trial.run, None)
        if run is not None:
            self._count(trial.cell, run)
        if trial.state is JobState.SUCCEEDED:
            self._number += 1
            self._samples.setdefault(trial.cell, []).append(samples)
        else:
            super().ended(trial, run, samples)

    def finding(self, finding: Finding) -> None:
        """Print the message above the table."""
        self.print_message(format_finding(finding))
        if finding.remedy:
            self.print_message(remedy_line(finding.remedy))

    def tick(self, bench: BenchRecord) -> None:
        """Draw the table again, a few times a second."""
        if monotonic() - self._drawn > _REDRAW_SECONDS and self._live.is_started:
            self._drawn = monotonic()
            self._live.update(self._table(Bench(bench)), refresh=True)

    def finish(self, bench: Bench, exit_code: int) -> None:
        """Replace the live table with the plain one."""
        self._live.stop()
        super().finish(bench, exit_code)

    def close(self) -> None:
        """Restore the terminal's cursor, if `finish` has not."""
        self._live.stop()

    def print_message(self, line: str) -> None:
        """Print the message above the table."""
        self._live.console.print(Text.from_ansi(sanitize(line)), soft_wrap=True)

    def print_important(self, line: str) -> None:
        """Print the message above the table."""
        self.print_message(line)

    def _count(self, cell: int, run: RunRecord) -> None:
        cost, _ = cost_of(run)
        if cost is not None:
            self._spent[cell] = self._spent.get(cell, 0.0) + cost
        if run.ended:
            took = seconds_between(run.created, run.ended)
            self._times[cell] = self._times.get(cell, 0.0) + took

    def _table(self, bench: Bench) -> Group:
        console, shown = self._live.console, self._rows(bench)
        names = list(self._specs)[:_MAX_METRICS]
        rows = [self._row(bench, index, names) for index in shown]
        for count in range(len(names), -1, -1):
            grid = _grid(names[:count], [[*row[: 3 + count], row[-1]] for row in rows])
            width = console.measure(grid, options=console.options.update(width=_ANY)).maximum
            if width <= console.width:
                break
        grid.width = min(width, console.width)
        hidden = len(bench.cells) - len(shown)
        head = Text.assemble(
            (bench.id, "bold"),
            f"  {bench.done} of {bench.total} runs  {len(self._running)} in progress  ",
            format_duration(monotonic() - self._started),
            f"  and {counted(hidden, 'more cell')}" if hidden else "",
            no_wrap=True,
            overflow="ellipsis",
        )
        return Group(head, grid)

    def _rows(self, bench: Bench) -> list[int]:
        """All cells; if the terminal is too small, only the active ones."""
        room = max(3, min(_MAX_ROWS, self._live.console.height - 3))
        busy = {trial.cell for trial, _ in self._running.values()}
        order = sorted(range(len(bench.cells)), key=lambda cell: cell not in busy)
        return sorted(order[:room])

    def _row(self, bench: Bench, cell: int, names: list[str]) -> list[Text]:
        states = {state.value: count for state, count in bench.counts(cell).items()}
        runs = Text(f"{states.pop('succeeded', 0)}/{bench.record.repeat}")
        for state, count in states.items():
            runs.append(f" {count} {state}", _STYLES.get(state, "cyan"))
        spent = self._spent_so_far(cell)
        return [
            Text(format_cell(bench.cells[cell], longest=0)),
            runs,
            Text(format_duration(self._time_so_far(cell))),
            *(Text(self._metric(cell, name)) for name in names),
            Text("" if spent is None else f"{spent:.2f}"),
        ]

    def _metric(self, cell: int, name: str) -> str:
        """The statistic of the ended runs; before that the latest value."""
        statistic = cell_statistics(self._samples.get(cell, [])).get(name)
        if statistic is not None and statistic.n:
            return str(statistic)
        for trial, feed in self._running.values():
            if trial.cell == cell and name in feed.tally.metrics:
                return f"{format_number(feed.tally.last(name))} …"
        return ""

    def _going(self, cell: int) -> list[RunRecord]:
        names = [trial.run for trial, _ in self._running.values() if trial.cell == cell]
        return [run for name in names if (run := self._store.get(name)) is not None]

    def _time_so_far(self, cell: int) -> float:
        going = [seconds_between(run.created, run.ended or now()) for run in self._going(cell)]
        return self._times.get(cell, 0.0) + sum(going)

    def _spent_so_far(self, cell: int) -> float | None:
        costs = [cost for run in self._going(cell) if (cost := cost_of(run)[0]) is not None]
        if cell not in self._spent and not costs:
            return None
        return self._spent.get(cell, 0.0) + sum(costs)


def _grid(names: list[str], rows: list[list[Text]]) -> Table:
    """The rows of cells with these metrics; in a narrow terminal the cells' names are cut."""
    grid = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("CELL", "RUNS", "TIME", *map(str.upper, names), "USD"):
        ratio = 1 if title == "CELL" else None
        grid.add_column(title, no_wrap=True, overflow="ellipsis", ratio=ratio)
    for row in rows:
        grid.add_row(*row)
    return grid


def _as_runs(metrics: Mapping[str, CellStatistic]) -> list[Mapping[str, Sample]]:
    """The samples of a cell as those of its runs."""
    count = max((len(statistic.values) for statistic in metrics.values()), default=0)
    return [
        {
            name: Sample(value=statistic.values[index], unit=statistic.unit, goal=statistic.goal)
            for name, statistic in metrics.items()
            if index < len(statistic.values)
        }
        for index in range(count)
    ]
