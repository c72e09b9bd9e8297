"""The regressions that a gate's repetitions can detect, and their cost, for display before they
run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple, Optional

from rsctl.bench.fingerprint import Cell
from rsctl.bench.results import Results
from rsctl.bench.stats import Fresh, detectable, excludable, noise, pooled_spread, smallest_p
from rsctl.bench.verdict import ALPHA, CONFIRMED, Floor, shares
from rsctl.findings import counted
from rsctl.runs.stream.formatting import format_duration, format_number

_MOST_RUNS = 1000


class Forecast(NamedTuple):
    """The regressions that a number of runs of a metric can detect.

    `runs` are the numbers of runs of baseline and candidate in a cell, `noise` the standard
    deviation of a run by the baseline, in the unit of `floor`. `detectable` is the true regression
    that is found in 80 % of cases, `passes` the least floor at which an unchanged program passes in
    80 %; None if not known. `least` is how often a cell must be run, the `confirm` runs of a
    confirmation included, to show anything at all.
    """

    metric: str
    runs: tuple[int, int]
    floor: Floor
    noise: Optional[float]
    detectable: Optional[float]
    passes: Optional[float]
    least: int
    confirm: int = 0
    cells: int = 1

    def in_words(self) -> str:
        """One sentence."""
        if not self.runs[0]:
            return f"{self.metric}: the baseline has no data for it"
        runs = f"{self.metric}: {self.runs[0]}+{self.runs[1]} runs per cell"
        if self.runs[1] + self.confirm < self.least:
            again = f" and {self.confirm} to confirm" if self.confirm else ""
            least = self.least - self.confirm
            cell = " of a single cell" if self.cells > 1 else ""
            cannot = f"cannot show any regression{cell}"
            return f"{runs}{again} {cannot}: --repeat {least} could"
        return format_detectable(runs, self.floor, self.noise, self.detectable, self.passes)


def format_detectable(
    runs: str,
    floor: Floor,
    noise: Optional[float],
    detectable: Optional[float],
    passes: Optional[float],
) -> str:
    """One sentence: what the planned runs, which `runs` names, can detect with this noise."""
    if noise is None or detectable is None or passes is None:
        return (
            f"{runs}, {floor} allowed; the noise is unknown, and so is the smallest "
            "regression that they detect"
        )
    spread, found, least = (
        f"{100 * value:.2g} %" if floor.is_relative else f"{value:.2g}"
        for value in (noise, detectable, passes)
    )
    text = f"{runs}, noise {spread}: they detect a regression of {found} in 80 % of cases"
    if passes > floor.amount:
        text += (
            f"; {floor} is smaller than this noise requires: increase the number of "
            f"runs, or allow {least}"
        )
    return text


def forecast(
    baseline: Results,
    floors: Mapping[str, Floor],
    cells: Sequence[Cell],
    repeat: int,
    confirm: int = 0,
    alpha: float = ALPHA,
) -> list[Forecast]:
    """For each metric, what `repeat` runs of each of the candidate's cells can detect."""
    checks = len(cells) * len(floors), len(floors) if cells[1:] else 0
    return [
        _of_metric(baseline, name, floor, cells, (repeat, confirm), checks, alpha)
        for name, floor in floors.items()
    ]


def format_cost(baseline: Results, cells: Sequence[Cell], repeat: int) -> str:
    """The duration and cost of the runs, estimated from the baseline: `30 runs, about 0:42:00 of
    runs, 12 USD`.
    """
    parts = [counted(len(cells) * repeat, "run")]
    seconds = _total(baseline, "run.time", cells, repeat)
    dollars = _total(baseline, "run.cost", cells, repeat)
    if seconds is not None:
        parts.append(f"about {format_duration(seconds)} of sequential work")
    if dollars is not None:
        parts.append(f"about {format_number(dollars)} USD")
    if seconds is None and dollars is None:
        parts.append("the cost is unknown before the first run")
    return ", ".join(parts)


def _of_metric(
    baseline: Results,
    name: str,
    floor: Floor,
    cells: Sequence[Cell],
    planned: tuple[int, int],
    checks: tuple[int, int],
    alpha: float,
) -> Forecast:
    repeat, confirm = planned
    found = [baseline.find(name, cell) for cell in cells]
    series = [one for one in found if one is not None and one.known]
    before = min((len(s.known) for s in series), default=0)
    groups = [group for one in series for group in one.groups]
    spread = noise(groups) if floor.is_relative else pooled_spread(groups)
    runs = (before, repeat)
    smallest = smallest_p((before or repeat, repeat))
    share = shares(*checks, smallest, alpha)[0] or alpha / checks[0]
    fresh = Fresh(0, confirm) if confirm else None
    level = share
    if fresh:
        all_runs = smallest_p((before or repeat, repeat + confirm))
        level = shares(*checks, all_runs, alpha * CONFIRMED)[0] or alpha * CONFIRMED / checks[0]
    return Forecast(
        metric=name,
        runs=runs,
        floor=floor,
        noise=spread,
        detectable=detectable(spread, runs, floor.amount, level, fresh)
        if spread is not None and before
        else None,
        passes=excludable(spread, runs, share) if spread is not None and before else None,
        least=least_runs(
            checks,
            alpha * CONFIRMED if confirm else alpha,
            lambda number: smallest_p((before or repeat, number)),
        ),
        confirm=confirm,
        cells=len(cells),
    )


def least_runs(checks: tuple[int, int], alpha: float, smallest_of: Callable[[int], float]) -> int:
    """How many runs reach alpha in one cell, where `smallest_of` is the least p of a number."""

    def can_reach(runs: int) -> bool:
        smallest = smallest_of(runs)
        return smallest <= shares(*checks, smallest, alpha)[0]

    return next((runs for runs in range(1, _MOST_RUNS) if can_reach(runs)), _MOST_RUNS)


def _total(baseline: Results, name: str, cells: Sequence[Cell], repeat: int) -> float | None:
    """The sum over cells of the baseline's mean, times the repetitions; None if one is unknown."""
    found = [baseline.find(name, cell) for cell in cells]
    means = [fmean(series.known) for series in found if series is not None and series.known]
    return repeat * sum(means) if means and len(means) == len(cells) else None
