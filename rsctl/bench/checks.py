"""The checks of a gate: each metric of each cell, what can be compared, and its statistics."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Optional

import msgspec
from msgspec.structs import replace

from rsctl.bench.exchanges import p_of_any
from rsctl.bench.fingerprint import Cell, machines_to_compare, refusals
from rsctl.bench.floors import floor_of
from rsctl.bench.results import Results, Series, cell_label, parts_of
from rsctl.bench.sides import Sides
from rsctl.bench.stats import (
    CellSides,
    combine,
    detectable,
    interval,
    mean,
    pooled_spread,
    smallest_p,
    spread,
)
from rsctl.bench.strata import (
    blocks_of_strata,
    smallest_stratified_p,
    strata_of,
    stratified_groups,
    stratified_interval,
)
from rsctl.bench.verdict import (
    NO_EVIDENCE,
    Evidence,
    Floor,
    Verdict,
    oriented,
    test_scale,
    weigh,
    weigh_strata,
)

_FINEST = 1e-8
"""The part of a value's size below which an exact test takes values for equal, with room."""


class PartCheck(msgspec.Struct, kw_only=True):
    """A part of a curve: its first and last step, the medians of both sides, and the effect."""

    steps: tuple[int, int]
    baseline: float
    value: float
    effect: Optional[float]

    @property
    def middle(self) -> float:
        """The step in its middle."""
        return sum(self.steps) / 2


class MetricCheck(msgspec.Struct, kw_only=True):
    """One metric of one cell; `cell` is None for the check across all cells.

    `effect` is the median of all differences of two runs, with its 90 % `interval`, as a part of
    the baseline's median (`is_relative`) or in the metric's unit, as `floor` is. `baseline` and
    `value` are medians of runs. `p` is one-sided, `p_adjusted` the same for the number of checks.
    `detectable` is the smallest true regression that these runs find in 80 % of cases. `runs` are
    the numbers of runs of baseline and candidate; across all cells, of repetitions with data in
    every cell. `pairs` is the number of repetitions that count where both sides ran in turn, None
    where they ran apart. `suspected` is whether the effect is beyond the floor, `confirmed` whether
    fresh runs were taken into account. `machines` is the number of kinds of machines; with several,
    only runs on the same kind are compared with each other. `steps` are the first and last step of
    the worst part of a curve, which `effect`, `baseline` and `value` are of; `parts` are all parts.
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
    pairs: Optional[int] = None
    unit: Optional[str] = None
    goal: Optional[str] = None
    suspected: bool = False
    confirmed: bool = False
    machines: int = 1
    steps: Optional[tuple[int, int]] = None
    parts: list[PartCheck] = []
    reason: Optional[str] = None

    @property
    def title(self) -> str:
        """The metric and its cell, of a curve its worst part, for people."""
        where = "all cells" if self.cell is None else cell_label(self.cell)
        if self.steps is not None:
            worst = "worst in steps {} to {}".format(*self.steps)
            where = f"{where}; {worst}" if where else worst
        return f"{self.metric} ({where})" if where else self.metric


class UndecidedCheck(msgspec.Struct):
    """A check before it is decided: the values of its cells if it can be, a better one higher.

    `strata` are the same by machine, if the runs of both sides are on several kinds of machines.
    `lost` says which runs of the candidate have no data, `thinned` which of the baseline. Of a
    curve, `parts` are the checks of its parts; `cells` and `strata` are of the worst.
    """

    check: MetricCheck
    floor: Floor
    cells: list[CellSides] = []
    lost: list[str] = []
    strata: list[Sides] = []
    thinned: list[str] = []
    parts: list[UndecidedCheck] = []

    @property
    def goal(self) -> str:
        """The metric's goal."""
        return self.check.goal or "max"

    def weigh(self, level: float = 1.0) -> Evidence:
        """The evidence of its cells, or of its parts together, fine enough for a p of `level`."""
        if self.parts:
            return self._weigh_parts(level)
        if self.strata:
            return weigh_strata(self.strata, self.floor, level)
        return weigh(self.cells, self.floor, level) if self.cells else NO_EVIDENCE

    def _weigh_parts(self, level: float) -> Evidence:
        """The effect of the worst part, and the p of all parts.

        That of any part being lower is exact: an exchange of runs exchanges their whole curves.
        That of a part beyond the floor is the largest of the parts (an intersection-union test).
        """
        found = [part.weigh() for part in self.parts]
        effects = [-math.inf if each.effect is None else each.effect for each in found]
        at = effects.index(min(effects))
        worst = self.parts[at]
        self.cells, self.strata = worst.cells, worst.strata
        self.check.baseline, self.check.value = worst.check.baseline, worst.check.value
        self.check.steps = worst.check.steps
        sign = 1 if self.goal == "max" else -1
        self.check.parts = [
            PartCheck(
                steps=part.check.steps or (0, 0),
                baseline=part.check.baseline or 0.0,
                value=part.check.value or 0.0,
                effect=None if each.effect is None else sign * each.effect,
            )
            for part, each in zip(self.parts, found, strict=True)
        ]
        p = p_of_any([part.blocks for part in self.parts], level)
        excluded, apart = (
            max(column) for column in zip(*(each[2:] for each in found), strict=True)
        )
        return Evidence(found[at].effect, p, excluded, int(apart))

    @property
    def blocks(self) -> Sequence[Sides]:
        """The values that a test exchanges."""
        if self.strata:
            return blocks_of_strata(self.strata)
        return [combine(self.cells, test_scale(self.floor))]

    @property
    def runs(self) -> tuple[int, int]:
        """How many values the test has of the baseline and of the candidate."""
        if self.strata:
            return self.check.runs
        sides = combine(self.cells, None)
        return len(sides.baseline), len(sides.candidate)

    @property
    def smallest_p(self) -> float:
        """The least p that its number of runs can reach."""
        return smallest_stratified_p(self.strata) if self.strata else smallest_p(self.check.runs)

    @property
    def interval(self) -> Optional[tuple[float, float]]:
        """The interval of its effect, oriented; None if there is none."""
        if self.strata:
            return stratified_interval(self.strata, self.floor.is_relative)
        return interval(self.cells, self.floor.is_relative)

    @property
    def noise(self) -> Optional[float]:
        """The standard deviation of a run in the unit of its effect; None if unknown."""
        if self.strata:
            return pooled_spread(stratified_groups(self.strata, self.floor.is_relative))
        return spread(self.cells, self.floor.is_relative)

    @property
    def counted(self) -> str:
        """The number of runs that the test has, for people: `5+5 runs`."""
        return f"{'+'.join(map(str, self.runs))} runs"


def make_cases(
    baseline: Results, candidate: Results, floors: Mapping[str, Floor]
) -> list[UndecidedCheck]:
    """A case for each metric in each cell of either side, then one across the cells of each."""
    return cases_by(partial(_case, baseline, candidate), baseline, candidate, floors)


def cases_by(
    make_case: Callable[[str, Floor, Cell], UndecidedCheck],
    baseline: Results,
    candidate: Results,
    floors: Mapping[str, Floor],
    kind: type[UndecidedCheck] = UndecidedCheck,
) -> list[UndecidedCheck]:
    """As `make_cases`, where a function makes the case of a cell."""
    cells = [runs.cell for runs in candidate.cells]
    cells += [runs.cell for runs in baseline.cells if runs.cell not in cells]
    single = [
        make_case(name, floor_of(floors, name, cell), cell) for name in floors for cell in cells
    ]
    across = [across_cells(name, single, kind) for name in floors]
    return [*single, *(case for case in across if case is not None)]


def new_check(
    name: str,
    cell: Optional[Cell],
    floor: Floor,
    before: Optional[Series],
    after: Optional[Series],
) -> MetricCheck:
    """A check of one cell, or across the cells, before anything is known of it but its metric."""
    sides = [series for series in (after, before) if series is not None]
    return MetricCheck(
        metric=name,
        cell=cell,
        verdict=Verdict.NO_DATA,
        floor=floor.amount,
        is_relative=floor.is_relative,
        unit=next((series.unit for series in sides if series.unit), None),
        goal=next((series.goal for series in sides if series.goal), None),
    )


def _case(
    baseline: Results, candidate: Results, name: str, floor: Floor, cell: Cell
) -> UndecidedCheck:
    before, after = baseline.find(name, cell), candidate.find(name, cell)
    check = new_check(name, cell, floor, before, after)
    check.reason = _why_not(baseline, candidate, name, cell)
    if check.reason is not None or before is None or after is None:
        return UndecidedCheck(check, floor)
    machines = machines_to_compare(baseline.fingerprint, candidate.fingerprint, cell)

    def compare(check: MetricCheck, before: Series, after: Series) -> UndecidedCheck:
        cells = [CellSides(*(oriented(s.finite, check.goal or "max") for s in (before, after)))]
        check.baseline, check.value = median(before.known), median(after.known)
        check.runs = (len(before.known), len(after.known))
        case = UndecidedCheck(check, floor, cells, _lost(after), thinned=_lost(before))
        if machines is not None:
            _stratify(case, strata_of(cells[0], *machines))
        return case

    return case_of(check, before, after, compare)


def case_of(
    check: MetricCheck,
    before: Series,
    after: Series,
    compare: Callable[[MetricCheck, Series, Series], UndecidedCheck],
) -> UndecidedCheck:
    """The case of a metric by `compare`; of a curve, that of all its parts."""
    whole = compare(check, before, after)
    if not whole.cells or not before.is_curve:
        return whole
    try:
        whole.parts = [
            compare(replace(check, steps=part.steps), part.baseline, part.candidate)
            for part in parts_of(before, after)
        ]
    except ValueError as problem:
        check.reason, whole.cells, whole.strata = str(problem), [], []
    return whole


def _stratify(case: UndecidedCheck, strata: list[Sides]) -> None:
    """Compare only runs on the same kind of machine with each other."""
    case.strata, case.check.machines = strata, len(strata)
    if not strata:
        case.check.reason, case.cells = "no kind of machine has runs with data of both sides", []
        return
    before, after = (sum(len(sides[side]) for sides in strata) for side in (0, 1))
    case.check.runs = (before, after)


def _why_not(baseline: Results, candidate: Results, name: str, cell: Cell) -> str | None:
    """Why there is nothing to decide by; None if there is."""
    before, after = baseline.find(name, cell), candidate.find(name, cell)
    runs = candidate.of_cell(cell)
    if runs is None:
        return "the baseline has this cell, but the candidate does not"
    if baseline.of_cell(cell) is None:
        return "the candidate has this cell, but the baseline does not"
    refused = refusals(baseline.fingerprint, candidate.fingerprint, cell, name)
    if refused:
        return "the baseline was measured under other conditions: " + "; ".join(map(str, refused))
    if before is None or not before.known:
        why = f": {before.reasons[-1]}" if before is not None and before.reasons else ""
        return f"the baseline has no data for it{why}"
    if after is None or not after.known:
        reasons = (after.reasons if after else []) or runs.lost or ["there is no run of it"]
        return "no data: " + "; ".join(reasons[:3])
    if before.goal and after.goal and before.goal != after.goal:
        return f"its goal is {after.goal}, but the baseline's is {before.goal}"
    if before.unit and after.unit and before.unit != after.unit:
        return f"its unit is {after.unit}, but the baseline's is {before.unit}"
    return None


def _lost(series: Series) -> list[str]:
    lacking = len(series.values) - len(series.known)
    why = "; ".join(series.reasons[:3])
    text = f"{lacking} of {len(series.values)} runs have no data"
    return [f"{text}: {why}" if why else text] if lacking else []


def across_cells(
    name: str, cases: Sequence[UndecidedCheck], kind: type[UndecidedCheck]
) -> UndecidedCheck | None:
    """The check across all cells of a metric that have data, if they are several.

    It allows the mean of what the cells allow; amounts and percentages have no mean. Curves of
    several cells have none.
    """
    mine = [c for c in cases if c.check.metric == name and c.cells and not c.parts]
    if len(mine) < 2 or any(case.strata for case in mine):
        return None  # a repetition's cells may be on several kinds of machines
    if len({case.floor.is_relative for case in mine}) > 1:
        return None
    like = mine[0].check
    floor = Floor(mean([case.floor.amount for case in mine]), mine[0].floor.is_relative)
    check = new_check(name, None, floor, None, None)
    check.unit, check.goal = like.unit, like.goal
    case = kind(check, floor, [cell for other in mine for cell in other.cells])
    case.lost = [text for other in mine for text in other.lost]
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
    ends = case.interval
    if ends is not None:
        low, high = sorted((sign * ends[0], sign * ends[1]))
        check.interval = (low, high)
    noise = case.noise
    if noise is not None and case.smallest_p <= alpha:
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
    elif case.thinned:
        check.reason = f"of the baseline, {case.thinned[0]}"


def _values(case: UndecidedCheck) -> list[float]:
    return [value for cell in case.cells for side in cell.known for value in side]


def _why_inconclusive(case: UndecidedCheck, evidence: Evidence, alpha: float) -> str:
    runs = case.counted
    if evidence.effect is None:
        return "the baseline is zero, so there is no percentage: allow an amount instead"
    if case.smallest_p > alpha:
        kinds = f" on {len(case.strata)} kinds of machines" if case.strata else ""
        verb = "is" if runs.startswith("one ") else "are"
        return f"{runs}{kinds} {verb} too few to show a difference: increase the number of runs"
    if not case.floor.is_relative and case.floor.amount < _FINEST * max(map(abs, _values(case))):
        return (
            f"an allowed regression of {case.floor} is too small to be measured relative to these "
            "values"
        )
    if evidence.is_beyond(case.floor):
        return f"exceeds the allowed regression, but {runs} may differ this much by chance"
    if evidence.apart:
        count = f"{evidence.apart} of {case.runs[1]} runs of the candidate"
        return f"{count} are far worse than the others, and more than the baseline has"
    return f"{runs} do not exclude a regression of more than {case.floor}"
