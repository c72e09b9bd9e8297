"""The gate of a paired bench: each metric of each cell, judged by its repetitions.

`evaluate_pairs` decides by the pairs that there are, `confirm_pairs` by these and fresh ones. The
rule is the same as for sides that ran apart, see `rsctl.bench.verdict`; `rsctl.bench.paired` has
the test, the effect and the interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import median
from typing import Optional

from rsctl.bench import paired
from rsctl.bench.checks import MetricCheck, UndecidedCheck, case_of, cases_by, new_check
from rsctl.bench.exchanges import p_within
from rsctl.bench.fingerprint import Cell, refusals
from rsctl.bench.gate import Gate, judge, judge_again, make_gate, require_goals
from rsctl.bench.paired import PairedCell
from rsctl.bench.paired_results import PairedResults, paired_values, together
from rsctl.bench.results import CellRuns, Series, cell_label
from rsctl.bench.sides import Sides
from rsctl.bench.stats import CellSides
from rsctl.bench.verdict import ALPHA, NO_EVIDENCE, Evidence, Floor, at_floor, evidence_of, oriented

_MOST_REASONS = 3
_ONLY_TRACKED = "files that git does not track are not in the folder of a commit"


def weigh_pairs(cells: Sequence[PairedCell], floor: Floor, level: float = 1.0) -> Evidence:
    """The evidence of pairs in one oriented cell, or in several by means of repetitions."""
    measured = paired.effect(cells, floor.is_relative)
    if measured is None:
        return NO_EVIDENCE
    moved = [  # the sides change places: is the candidate better than the baseline at the floor?
        PairedCell(cell.candidate, at_floor(cell.baseline, cell.known, floor), cell.blocks)
        for cell in cells
    ]
    tested, excluded = (paired.for_test(each, floor.is_relative) for each in (cells, moved))
    return evidence_of(measured, p_within(tested, level), excluded)


class PairedCheck(UndecidedCheck):
    """A check of pairs before it is decided."""

    cells: list[PairedCell] = []  # type: ignore[assignment]

    def weigh(self, level: float = 1.0) -> Evidence:
        """The evidence of its cells, or of its parts together, fine enough for a p of `level`."""
        if self.parts:
            return self._weigh_parts(level)
        return weigh_pairs(self.cells, self.floor, level) if self.cells else NO_EVIDENCE

    @property
    def blocks(self) -> Sequence[Sides]:
        """The values that a test exchanges."""
        return paired.for_test(self.cells, self.floor.is_relative)

    @property
    def runs(self) -> tuple[int, int]:
        """How many repetitions the test has, for each side."""
        count = sum(len(block.baseline) for block in paired.combine_pairs(self.cells, None))
        return count, count

    @property
    def smallest_p(self) -> float:
        """The least p that its repetitions can reach."""
        return paired.smallest_p(paired.combine_pairs(self.cells, None))

    @property
    def interval(self) -> Optional[tuple[float, float]]:
        """The interval of its effect, oriented; None if there is none."""
        return paired.interval(self.cells, self.floor.is_relative)

    @property
    def noise(self) -> Optional[float]:
        """The standard deviation of a run in the unit of its effect; None if unknown."""
        return paired.spread(self.cells, self.floor.is_relative)

    @property
    def counted(self) -> str:
        """The number of pairs that the test has, for people: `5 pairs of runs`."""
        count = self.runs[0]
        return "one pair of runs" if count == 1 else f"{count} pairs of runs"


def evaluate_pairs(
    results: PairedResults, floors: Mapping[str, Floor], alpha: float = ALPHA
) -> Gate:
    """The verdict of the pairs that there are. Raises RsctlError if a metric has no goal."""
    require_goals(floors, results.baseline, results.candidate)
    cases = make_paired_cases(results, floors)
    judge(cases, alpha)
    return _gate(results, cases)


def confirm_pairs(
    first: Gate,
    results: PairedResults,
    fresh: PairedResults,
    floors: Mapping[str, Floor],
    alpha: float = ALPHA,
) -> Gate:
    """The verdict after fresh pairs of the cells of suspected checks; others stay as they were."""
    cases = make_paired_cases(together(results, fresh), floors)
    judge_again(first, make_paired_cases(fresh, floors), cases, alpha)
    return _gate(results, cases, fresh)


def make_paired_cases(results: PairedResults, floors: Mapping[str, Floor]) -> list[UndecidedCheck]:
    """A case for each metric in each cell, then one across the cells of each metric."""
    make_case = partial(_case, results)
    cases = cases_by(make_case, results.baseline, results.candidate, floors, PairedCheck)
    for case in cases:
        case.check.pairs = case.check.runs[0]
    return cases


def _gate(
    results: PairedResults, cases: Sequence[UndecidedCheck], fresh: PairedResults | None = None
) -> Gate:
    gate = make_gate(results.baseline, results.candidate, cases, fresh.candidate if fresh else None)
    gate.against = results.against
    sides = [results.baseline, *([fresh.baseline] if fresh else [])]
    gate.baseline_failures = [code for s in sides for cell in s.cells for code in cell.failures]
    return gate


def _case(results: PairedResults, name: str, floor: Floor, cell: Cell) -> UndecidedCheck:
    before, after = results.baseline.find(name, cell), results.candidate.find(name, cell)
    check = new_check(name, cell, floor, before, after)
    check.reason = _why_not(results, name, cell)
    if check.reason is not None or before is None or after is None:
        return PairedCheck(check, floor)
    blocks = results.blocks.get(cell_label(cell), [])

    def compare(check: MetricCheck, before: Series, after: Series) -> UndecidedCheck:
        values = paired_values(before, after, blocks)
        known = CellSides(*values).known
        if not known.baseline:
            lost = _lost(results, name, cell)
            check.reason = f"no repetition has data on both sides: {'; '.join(lost)}"
            return PairedCheck(check, floor)
        check.baseline, check.value = median(known.baseline), median(known.candidate)
        check.runs = (len(known.baseline), len(known.candidate))
        goal = check.goal or "max"
        before_values, after_values = (oriented(side, goal) for side in values)
        numbers = [block or 0 for block in blocks[: len(before_values)]]
        pairs = PairedCell(before_values, after_values, numbers)
        lacking = len(values[0]) - check.runs[0]
        why = "; ".join(_lost(results, name, cell)[:_MOST_REASONS])
        lost = [f"{lacking} of {len(values[0])} repetitions do not count: {why}"] if lacking else []
        return PairedCheck(check, floor, [pairs], lost)

    return case_of(check, before, after, compare)


def _why_not(results: PairedResults, name: str, cell: Cell) -> str | None:
    """Why there is nothing to decide by; None if there is."""
    before, after = results.baseline.find(name, cell), results.candidate.find(name, cell)
    runs = [results.baseline.of_cell(cell), results.candidate.of_cell(cell)]
    if runs[0] is None or runs[1] is None:
        side = "baseline" if runs[0] is None else "candidate"
        return f"the {side} does not have this cell, so that no run is paired with it"
    fingerprints = results.baseline.fingerprint, results.candidate.fingerprint
    refused = refusals(*fingerprints, cell, name)
    if refused:
        return "the baseline is another measurement: " + "; ".join(map(str, refused))
    if runs[1].has_failed:
        return _all_failed("candidate", runs[1])
    if runs[0].has_failed:
        why = _all_failed(f"baseline, {results.against.label},", runs[0])
        return why if results.against.commit is None else f"{why}; {_ONLY_TRACKED}"
    for side, series, of_cell in (("baseline", before, runs[0]), ("candidate", after, runs[1])):
        if series is None or not series.known:
            reasons = (series.reasons if series else []) or of_cell.lost or ["it is not logged"]
            return f"the {side} has no data for it: {'; '.join(reasons[:_MOST_REASONS])}"
    if before and after and before.goal and after.goal and before.goal != after.goal:
        return f"its goal is {after.goal}, but the baseline's is {before.goal}"
    return None


def _all_failed(side: str, runs: CellRuns) -> str:
    return f"all runs of the {side} failed: {'; '.join(runs.lost[:_MOST_REASONS])}"


def _lost(results: PairedResults, name: str, cell: Cell) -> list[str]:
    """Why repetitions do not count, each reason once."""
    found = [
        f"{side}: {reason}"
        for side, of_side in (("baseline", results.baseline), ("candidate", results.candidate))
        if (series := of_side.find(name, cell)) is not None
        for reason in series.reasons
    ]
    return list(dict.fromkeys([*results.apart.get(cell_label(cell), []), *found]))
