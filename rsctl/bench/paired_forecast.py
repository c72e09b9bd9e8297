"""The regressions that a number of pairs can detect, and their time and money, to show first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple, Optional

from rsctl.bench import paired
from rsctl.bench.fingerprint import Cell
from rsctl.bench.forecast import format_detectable, least_runs
from rsctl.bench.paired import PairedCell
from rsctl.bench.paired_results import PairedResults, paired_values
from rsctl.bench.results import Results, cell_label, parts_of
from rsctl.bench.stats import Fresh, detectable, excludable
from rsctl.bench.verdict import ALPHA, CONFIRMED, Floor, shares
from rsctl.estimate.costs.billing import PlanCost
from rsctl.runs.stream.formatting import format_duration, format_number
from rsctl.targets.base import Submission


class PairedForecast(NamedTuple):
    """The regressions that a number of pairs of a metric can detect in a cell.

    `noise` is the standard deviation of a run within its block by an earlier bench, in the unit of
    `floor`, `detectable` the true regression that is found in 80 % of cases, `passes` the least
    floor at which an unchanged program passes in 80 %; None if not known. `least` is how many
    repetitions can show anything at all, less those of a confirmation.
    """

    metric: str
    pairs: int
    floor: Floor
    noise: Optional[float]
    detectable: Optional[float]
    passes: Optional[float]
    least: int
    cells: int = 1

    def in_words(self) -> str:
        """One sentence."""
        what = "1 pair of runs" if self.pairs == 1 else f"{self.pairs} pairs of runs"
        runs = f"{self.metric}: {what} per cell"
        if self.pairs < self.least:
            cell = " of a single cell" if self.cells > 1 else ""
            return f"{runs} cannot show any regression{cell}: --repeat {self.least} could"
        return format_detectable(runs, self.floor, self.noise, self.detectable, self.passes)


def forecast_pairs(
    known: PairedResults | None,
    floors: Mapping[str, Floor],
    cells: Sequence[Cell],
    repeat: int,
    confirm: int = 0,
    alpha: float = ALPHA,
) -> list[PairedForecast]:
    """For each metric, what `repeat` pairs of each cell can detect, by an earlier bench."""
    checks = len(cells) * len(floors), len(floors) if cells[1:] else 0
    share = shares(*checks, paired.smallest_p_of(repeat), alpha)[0] or alpha / checks[0]
    fresh = Fresh(confirm, confirm) if confirm else None
    again = paired.smallest_p_of(confirm) if confirm else 1.0
    smallest = paired.smallest_p_of(repeat) * again
    whole = alpha * CONFIRMED if confirm else alpha
    level = shares(*checks, smallest, whole)[0] or whole / checks[0]
    least = least_runs(checks, whole, lambda number: paired.smallest_p_of(number) * again)
    found = []
    for name, floor in floors.items():
        noise = _noise(known, name, cells, floor) if known is not None else None
        runs = (repeat, repeat)
        size = None
        if noise is not None:
            size = detectable(noise, runs, floor.amount, level, fresh, smallest)
        passes = excludable(noise, runs, share) if noise is not None else None
        found.append(PairedForecast(name, repeat, floor, noise, size, passes, least, len(cells)))
    return found


def format_paired_cost(
    known: PairedResults | None,
    plans: Sequence[Submission],
    repeat: int,
    timeout: float | None,
    is_billed: bool = True,
) -> str:
    """The number of runs, and their time and cost: by an earlier bench, or else their limits."""
    pairs = repeat * len(plans) // 2
    parts = [f"{2 * pairs} runs, {pairs} of each side in turn"]
    sides = (known.baseline, known.candidate) if known is not None else ()
    seconds, dollars = (_total(sides, name, pairs) for name in ("run.time", "run.cost"))
    if seconds is not None:
        parts.append(f"about {format_duration(seconds)} of sequential work")
    elif timeout:
        most = 2 * pairs * float(timeout)
        parts.append(f"at most {format_duration(most)} of sequential work (limits.timeout)")
    if not is_billed:
        pass
    elif dollars is not None:
        parts.append(f"about {format_number(dollars)} USD")
    else:
        parts += _price(plans, repeat)
    if len(parts) == 1:
        parts.append("the time is unknown before the first run")
    return ", ".join(parts)


def _price(plans: Sequence[Submission], repeat: int) -> list[str]:
    """The most that runs can cost, where machines are billed."""
    costs = [plan.plan.cost for plan in plans if isinstance(plan.plan.cost, PlanCost)]
    if not costs:
        return []
    most = [cost.most for cost in costs if cost.most is not None]
    if len(most) < len(plans):
        return ["the cost is unknown before the first run"]
    return [f"at most {format_number(repeat * sum(most))} USD"]


def _total(sides: Sequence[Results], name: str, pairs: int) -> float | None:
    """The mean of each side's runs, times their number; None if one is unknown."""
    values = [[v for s in side.series if s.name == name for v in s.known] for side in sides]
    return pairs * sum(map(fmean, values)) if values and all(values) else None


def _noise(known: PairedResults, name: str, cells: Sequence[Cell], floor: Floor) -> float | None:
    found = [_noise_of_cell(known, name, cell, floor) for cell in cells]
    spreads = [spread for spread in found if spread is not None]
    return max(spreads, default=None)


def _noise_of_cell(known: PairedResults, name: str, cell: Cell, floor: Floor) -> float | None:
    before, after = known.baseline.find(name, cell), known.candidate.find(name, cell)
    if before is None or after is None:
        return None
    blocks = known.blocks.get(cell_label(cell), [])
    spreads = []
    try:
        parts = parts_of(before, after)
    except ValueError:
        return None
    for part in parts:
        values = paired_values(part.baseline, part.candidate, blocks)
        pairs = PairedCell(*values, [block or 0 for block in blocks[: len(values[0])]])
        spreads.append(paired.spread([pairs], floor.is_relative))
    return max((spread for spread in spreads if spread is not None), default=None)
