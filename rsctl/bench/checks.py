"""The checks of a gate: each metric of each cell, what can be compared, and its statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional

import msgspec

from rsctl.bench.fingerprint import Cell, refusals
from rsctl.bench.results import Results, Series, cell_label
from rsctl.bench.stats import (
    CellSides,
    combine,
    detectable,
    interval,
    mean,
    smallest_p,
    spread,
)
from rsctl.bench.verdict import (
    NO_EVIDENCE,
    Evidence,
    Floor,
    Verdict,
    oriented,
    weigh,
)

_FINEST = 1e-8
"""The part of a value's size below which an exact test takes values for equal, with room."""


class MetricCheck(msgspec.Struct, kw_only=True):
    """One metric of one cell; `cell` is None for the check across all cells.

    `effect` is the median of all differences of two runs, with its 90 % `interval`, as a part of
    the baseline's median (`is_relative`) or in the metric's unit, as `floor` is. `baseline` and
    `value` are means. `p` is one-sided, `p_adjusted` the same for the number of checks.
    `detectable` is the smallest true regression that these runs find in 80 % of cases. `runs` are
    the numbers of runs of baseline and candidate; across all cells, of repetitions with data in
    every cell. `suspected` is whether the effect is beyond the floor, `confirmed` whether fresh
    runs were taken into account.
    """

    metric: str
    cell: Optional[Cell]
    verdict: Verdict
    effect: Optional[float] = None
    interval: Optional[tuple[float, float]] = None
    p: Optional[float] = None
    p_adjusted: Optional[float] = None
    floor: float
    is_relative: bool = True
    baseline: Optional[float] = None
    value: Optional[float] = None
    detectable: Optional[float] = None
    runs: tuple[int, int] = (0, 0)
    unit: Optional[str] = None
    goal: Optional[str] = None
    suspected: bool = False
    confirmed: bool = False
    reason: Optional[str] = None

    @property
    def title(self) -> str:
        """The metric and its cell, for people."""
        where = "all cells" if self.cell is None else cell_label(self.cell)
        return f"{self.metric} ({where})" if where else self.metric


class UndecidedCheck(msgspec.Struct):
    """A check before it is decided: the values of its cells if it can be, a better one higher."""

    check: MetricCheck
    floor: Floor
    cells: list[CellSides] = []
    lost: list[str] = []

    @property
    def goal(self) -> str:
        """The metric's goal."""
        return self.check.goal or "max"

    def weigh(self) -> Evidence:
        """The evidence of its cells."""
        return weigh(self.cells, self.floor) if self.cells else NO_EVIDENCE

    @property
    def runs(self) -> tuple[int, int]:
        """How many values the test has of the baseline and of the candidate."""
        sides = combine(self.cells, None)
        return len(sides.baseline), len(sides.candidate)


def make_cases(
    baseline: Results, candidate: Results, floors: Mapping[str, Floor]
) -> list[UndecidedCheck]:
    """A case for each metric in each cell of either side, then one across the cells of each."""
    cells = [runs.cell for runs in candidate.cells]
    cells += [runs.cell for runs in baseline.cells if runs.cell not in cells]
    single = [
        _case(baseline, candidate, name, floor, cell)
        for name, floor in floors.items()
        for cell in cells
    ]
    across = [_across(name, floor, single) for name, floor in floors.items()]
    return [*single, *(case for case in across if case is not None)]


def _case(
    baseline: Results, candidate: Results, name: str, floor: Floor, cell: Cell
) -> UndecidedCheck:
    before, after = baseline.find(name, cell), candidate.find(name, cell)
    sides = [series for series in (after, before) if series is not None]
    check = MetricCheck(
        metric=name,
        cell=cell,
        verdict=Verdict.NO_DATA,
        floor=floor.amount,
        is_relative=floor.is_relative,
        unit=next((series.unit for series in sides if series.unit), None),
        goal=next((series.goal for series in sides if series.goal), None),
    )
    check.reason = _why_not(baseline, candidate, name, cell)
    if check.reason is not None or before is None or after is None:
        return UndecidedCheck(check, floor)
    cells = [CellSides(*(oriented(s.finite, check.goal or "max") for s in (before, after)))]
    check.baseline, check.value = mean(before.known), mean(after.known)
    check.runs = (len(before.known), len(after.known))
    return UndecidedCheck(check, floor, cells, _lost(after))


def _why_not(baseline: Results, candidate: Results, name: str, cell: Cell) -> str | None:
    """Why there is nothing to decide by; None if there is."""
    before, after = baseline.find(name, cell), candidate.find(name, cell)
    runs = candidate.of_cell(cell)
    if runs is None:
        return "the baseline has this cell, but the candidate does not"
    refused = refusals(baseline.fingerprint, candidate.fingerprint, cell, name)
    if refused:
        return "the baseline was measured under other conditions: " + "; ".join(map(str, refused))
    if before is None or not before.known:
        return "the baseline has no data for it"
    if after is None or not after.known:
        reasons = (after.reasons if after else []) or runs.lost or ["there is no run of it"]
        return "no data: " + "; ".join(reasons[:3])
    if before.goal and after.goal and before.goal != after.goal:
        return f"its goal is {after.goal}, but the baseline's is {before.goal}"
    return None


def _lost(series: Series) -> list[str]:
    lacking = len(series.values) - len(series.known)
    why = "; ".join(series.reasons[:3])
    return [f"{lacking} of {len(series.values)} runs have no data: {why}"] if lacking else []


def _across(name: str, floor: Floor, cases: Sequence[UndecidedCheck]) -> UndecidedCheck | None:
    """The check across all cells of a metric that have data, if they are several."""
    mine = [case for case in cases if case.check.metric == name and case.cells]
    if len(mine) < 2:
        return None
    like = mine[0].check
    check = MetricCheck(
        metric=name,
        cell=None,
        verdict=Verdict.NO_DATA,
        floor=floor.amount,
        is_relative=floor.is_relative,
        unit=like.unit,
        goal=like.goal,
    )
    case = UndecidedCheck(check, floor, [cell for other in mine for cell in other.cells])
    check.runs = case.runs
    if not all(case.runs):
        check.reason, case.cells = "no repetition has data in all cells", []
    return case


def fill(case: UndecidedCheck, evidence: Evidence, level: float, alpha: float) -> None:
    """The statistics of a check."""
    check, sign = case.check, 1 if case.goal == "max" else -1
    check.p, check.p_adjusted = evidence.p, level
    if evidence.effect is None:
        return
    check.effect = sign * evidence.effect
    ends = interval(case.cells, case.floor.is_relative)
    if ends is not None:
        low, high = sorted((sign * ends[0], sign * ends[1]))
        check.interval = (low, high)
    noise = spread(case.cells, case.floor.is_relative)
    if noise is not None:
        check.detectable = detectable(noise, case.runs, case.floor.amount, alpha)


def conclude(case: UndecidedCheck, verdict: Verdict, evidence: Evidence, alpha: float) -> None:
    """Set the verdict and say why; a cell that lost runs can fail, but not pass."""
    check = case.check
    check.verdict = verdict
    if verdict is Verdict.REGRESSED:
        return
    if case.lost:
        check.verdict, check.reason = Verdict.NO_DATA, case.lost[0]
    elif verdict is Verdict.INCONCLUSIVE:
        check.reason = _why_inconclusive(case, evidence, alpha)


def _values(case: UndecidedCheck) -> list[float]:
    return [value for cell in case.cells for side in cell.known for value in side]


def _why_inconclusive(case: UndecidedCheck, evidence: Evidence, alpha: float) -> str:
    runs = "+".join(map(str, case.runs))
    if evidence.effect is None:
        return "the baseline is zero, so there is no percentage: allow an amount instead"
    if smallest_p(case.runs) > alpha:
        return f"{runs} runs are too few to show a difference: increase the number of runs"
    if not case.floor.is_relative and case.floor.amount < _FINEST * max(map(abs, _values(case))):
        return (
            f"an allowed regression of {case.floor} is too small to be measured relative to these "
            "values"
        )
    if evidence.is_beyond(case.floor):
        return f"exceeds the allowed regression, but {runs} runs may differ this much by chance"
    return f"{runs} runs do not exclude a regression of more than {case.floor}"
